//! The models of a session: named by the user, or discovered on the machine.

use super::error::AssembleError;
use super::machine::Machine;
use super::notice::{Notice, chain};
use super::trouble::{Context, Trouble};
use super::{catalogue, keys, server};
use crate::config::Config;
use crate::settings::Sampling;
use crate::spelling::nearest;
use piton_models::model::Model;
use piton_models::options::Options;
use piton_models::provider::{self, ListError, ListedModel, OpenError, ProviderSpec};
use piton_models::recorded::{Recorded, Recorder};
use piton_models::short_names::{self, Meant};
use piton_models::text_tools;
use piton_tools::regular;
use std::fs::File;
use std::path::Path;
use std::sync::Arc;

/// The name by which cassettes are asked.
const RECORDED: &str = "recorded";
/// The provider that stands for any compatible server.
const NAMED: &str = "openai-chat";

/// The models of a server, or why it lists none.
type Listed = Result<Vec<ListedModel>, ListError>;

/// Where models come from.
pub(super) struct Source<'a> {
    pub(super) config: &'a Config,
    pub(super) machine: &'a Machine,
    pub(super) cassettes: &'a [(&'a str, &'a str)],
    /// Where the replies of the session's own models are recorded.
    pub(super) tape: Option<&'a File>,
}

/// What is wanted of the answers of a session's own models; it wins over what is said of each model.
#[derive(Default, Clone)]
pub(super) struct Answers {
    pub(super) options: Options,
    pub(super) text_tools: Option<text_tools::Mode>,
    /// What the preset wants where nobody else says anything.
    pub(super) by_preset: Option<text_tools::Mode>,
}

impl Answers {
    /// The same, made in another way as far as that is said.
    pub(super) fn with(&self, how: Sampling) -> Self {
        let Sampling { effort, temperature, top_p } = how;
        let mut answers = self.clone();
        answers.options.effort = effort.or(answers.options.effort);
        answers.options.temperature = temperature.or(answers.options.temperature);
        answers.options.top_p = top_p.or(answers.options.top_p);
        answers
    }
}

/// A model that is asked beside the session's own.
type Helper = Option<Arc<dyn Model>>;

impl Source<'_> {
    /// The models of these names (`a/x,b/y`), or one that can be found.
    pub(super) async fn all(
        &self,
        said: Option<&str>,
        answers: &Answers,
        notices: &mut Vec<Notice>,
    ) -> Result<Vec<Arc<dyn Model>>, AssembleError> {
        match said {
            Some(said) => self.named_all(said, answers, notices),
            None => self.taped(vec![self.open(self.at_hand().await?, answers, notices)?]),
        }
    }

    /// The models of these names.
    pub(super) fn named_all(
        &self,
        said: &str,
        answers: &Answers,
        notices: &mut Vec<Notice>,
    ) -> Result<Vec<Arc<dyn Model>>, AssembleError> {
        let named = said.split(',').map(|name| self.named(name.trim(), answers, notices));
        self.taped(named.collect::<Result<_, _>>()?)
    }

    /// The same, their replies recorded where they are to be.
    fn taped(&self, models: Vec<Arc<dyn Model>>) -> Result<Vec<Arc<dyn Model>>, AssembleError> {
        let Some(tape) = self.tape else { return Ok(models) };
        let tape = || tape.try_clone().context("cannot record the replies");
        let taped = models.into_iter().map(|model| Ok(Arc::new(Recorder::new(model, tape()?)) as Arc<dyn Model>));
        taped.collect()
    }

    /// Who writes titles and who writes summaries, if the configuration names them. What a client wants of answers is meant
    /// for the session's own models.
    pub(super) fn helpers(&self, notices: &mut Vec<Notice>) -> Result<(Helper, Helper), AssembleError> {
        let mut helper = |said: &Option<String>| {
            said.as_deref().map(|said| self.named(said, &Answers::default(), notices)).transpose()
        };
        Ok((helper(&self.config.titles.model)?, helper(&self.config.compaction.model)?))
    }

    /// The model of this name.
    fn named(&self, said: &str, answers: &Answers, notices: &mut Vec<Notice>) -> Result<Arc<dyn Model>, AssembleError> {
        let said = self.config.model_aliases.get(said).map_or(said, |meant| meant.trim());
        let (name, model) = match said.split_once('/') {
            Some((name, model)) => (name, Some(model.to_owned())),
            None => (said, None),
        };
        if name == RECORDED {
            return Ok(Arc::new(self.cassette(&model.context("name a cassette as recorded/FILE")?)?));
        }
        if self.config.no_such_provider(name).is_some() {
            let short = if model.is_none() { self.by_short_name(name)? } else { None };
            if let Some(spec) = short {
                let whole = format!("{}/{}", spec.provider, spec.model.as_deref().unwrap_or_default());
                notices.push(Notice::new(format!("{name} is {whole}")));
                return self.open(spec, answers, notices);
            }
            if model.is_none() {
                let is_provider = nearest(name, self.config.provider_names()).is_some();
                let spelled = |all: &[String]| {
                    nearest(name, all.iter().map(String::as_str)).filter(|_| !is_provider).map(str::to_owned)
                };
                let near = short_names::near(name, &catalogue::of(self.machine), spelled);
                if !near.is_empty() {
                    return Err(AssembleError::UnknownModel { name: name.to_owned(), near });
                }
            }
            let known = self.config.provider_names().join(", ");
            return Err(OpenError::UnknownProvider { name: name.to_owned(), known }.into());
        }
        self.open(server::spec(name, model, self.config, self.machine)?, answers, notices)
    }

    /// The model that a name without a provider means: at the first provider with a key, or else at the first that has it.
    /// Only that one's key is fetched: it may take a command, or a question of the keyring.
    fn by_short_name(&self, name: &str) -> Result<Option<ProviderSpec>, Trouble> {
        let mut meant = short_names::meant(name, &catalogue::of(self.machine));
        let mut with_key = None;
        for (at, Meant { provider, .. }) in meant.iter().enumerate() {
            if server::has_key(provider, self.config, self.machine)? {
                with_key = Some(at);
                break;
            }
        }
        if meant.is_empty() {
            return Ok(None);
        }
        let Meant { provider, model } = meant.swap_remove(with_key.unwrap_or(0));
        server::spec(provider.name, Some(model), self.config, self.machine).map(Some)
    }

    fn cassette(&self, path: &str) -> Result<Recorded, Trouble> {
        let text = match self.cassettes.iter().find(|(name, _)| *name == path) {
            Some((_, text)) => (*text).to_owned(),
            None => regular::named(Path::new(path), regular::CONVERSATION_BYTES)
                .with_context(|| format!("cannot read the cassette {path}"))?,
        };
        Ok(Recorded::parse(&text).context(path)?.named(format!("{RECORDED}/{path}")))
    }

    /// The model of a spec, with what was set about its answers. Notes what should be known about it.
    fn open(
        &self,
        mut spec: ProviderSpec,
        answers: &Answers,
        notices: &mut Vec<Notice>,
    ) -> Result<Arc<dyn Model>, AssembleError> {
        let config = self.config;
        let name = spec.label.clone().unwrap_or_else(|| spec.provider.clone());
        let default = provider::find(&spec.provider).and_then(|known| known.default_model);
        let model = spec.model.as_deref().or(default).unwrap_or_default();
        if spec.label.is_some() && model.is_empty() {
            return Err(Trouble::new(format!("which model of {name}? name one as {name}/MODEL")).into());
        }
        let text_tools = answers.text_tools.or_else(|| config.text_tools_of(&name, model)).or(answers.by_preset);
        spec.catalogue = config.known(catalogue::of(self.machine), &name, model);
        spec.options = answers.options.clone().or(&config.options(&name, model));
        spec.text_tools = text_tools.unwrap_or_default();
        notices.extend(provider::remarks(&spec).into_iter().map(Notice::new));
        Ok(provider::open(&spec, &server::http_options(&name, config, self.machine)?)?)
    }

    /// The first provider with a key, else the server whose address is set, else the first local server that answers.
    async fn at_hand(&self) -> Result<ProviderSpec, AssembleError> {
        let kept = keys::kept_names(self.machine)?;
        let has_default = |name: &&str| provider::find(name).is_some_and(|known| known.default_model.is_some());
        let kept = kept.iter().map(String::as_str).filter(has_default);
        for name in ["anthropic", "openai", "openrouter"].into_iter().chain(kept) {
            let spec = server::spec(name, None, self.config, self.machine)?;
            if spec.key.is_some() {
                return self.with_a_model_of_its_server(spec).await;
            }
        }
        let unlisted = match self.named_server().await? {
            Some((spec, Ok(models))) => match models.as_slice() {
                [] => None,
                [only] => return Ok(of_server(spec, only)),
                several => return Err(which_model(spec, several)),
            },
            Some((spec, Err(error))) => Some((spec, error)),
            None => None,
        };
        for local in server::local_providers() {
            let mut spec = server::spec(local.name, None, self.config, self.machine)?;
            let Ok(models) = provider::list_models(&spec, &server::probe_options()).await else { continue };
            let Some(first) = models.first() else { continue };
            spec.model = Some(first.id.clone());
            spec.window_tokens = provider::window(&spec, &server::probe_options()).await;
            return Ok(spec);
        }
        match unlisted {
            Some((spec, error)) => {
                let server = spec.base_url.unwrap_or_default();
                Err(AssembleError::NoList { server, why: chain(&error) })
            }
            None => Err(AssembleError::NoModel),
        }
    }

    /// OpenAI at another address than its own may be another server altogether: where it lists its models and the default is none
    /// of them, its only one is asked.
    async fn with_a_model_of_its_server(&self, spec: ProviderSpec) -> Result<ProviderSpec, AssembleError> {
        let default = provider::find(&spec.provider).and_then(|known| known.default_model);
        if spec.provider != "openai" || spec.base_url.is_none() {
            return Ok(spec);
        }
        let Some((named, Ok(models))) = self.named_server().await? else { return Ok(spec) };
        match models.as_slice() {
            [] => Ok(spec),
            models if models.iter().any(|model| Some(model.id.as_str()) == default) => Ok(spec),
            [only] => Ok(of_server(named, only)),
            several => Err(which_model(named, several)),
        }
    }

    /// The compatible server whose address the user has set, and the models that it lists.
    async fn named_server(&self) -> Result<Option<(ProviderSpec, Listed)>, AssembleError> {
        let spec = server::spec(NAMED, None, self.config, self.machine)?;
        if spec.base_url.is_none() {
            return Ok(None);
        }
        let options = server::http_options(NAMED, self.config, self.machine)?;
        let models = provider::list_models(&spec, &options).await;
        Ok(Some((spec, models)))
    }
}

/// This model of the named server.
fn of_server(spec: ProviderSpec, model: &ListedModel) -> ProviderSpec {
    ProviderSpec { model: Some(model.id.clone()), window_tokens: model.window_tokens, ..spec }
}

fn which_model(spec: ProviderSpec, models: &[ListedModel]) -> AssembleError {
    let models = models.iter().map(|model| format!("{NAMED}/{}", model.id)).collect();
    AssembleError::WhichModel { server: spec.base_url.unwrap_or_default(), models }
}
