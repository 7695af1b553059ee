//! Models by less than their whole name: `claude-sonnet-4-5`, whose provider the catalogue knows, and `sonnet`, the newest
//! of its family.

use crate::catalogue::Catalogue;
use crate::provider::{PROVIDERS, Provider};
use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet};

/// A model that a short name can mean.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Meant {
    /// Whose it is.
    pub provider: &'static Provider,
    /// Its whole name at the provider.
    pub model: String,
}

/// A shorter word of a name (`x`, `a`, `o3`) is too easily typed by mistake.
const LEAST_CHARS: usize = 4;

/// The models that are meant by a name without a provider: one at most of each provider, in the order of [`PROVIDERS`].
/// Providers that know it by exactly this name come alone. A word of a name means the newest model of its family, if all
/// providers together have one family of it: `mini` is in the names of several.
pub fn meant(name: &str, catalogue: &Catalogue) -> Vec<Meant> {
    let known: Vec<_> = PROVIDERS.iter().map(|provider| (provider, catalogue.names(provider.name))).collect();
    let exact = known.iter().filter(|(_, names)| names.iter().any(|known| known == name));
    let exact: Vec<Meant> = exact.map(|(provider, _)| Meant { provider, model: name.to_owned() }).collect();
    if !exact.is_empty() || name.chars().count() < LEAST_CHARS {
        return exact;
    }
    let families: Vec<_> = known.iter().map(|(provider, names)| (*provider, families(name, names))).collect();
    let all: BTreeSet<&BTreeSet<&str>> = families.iter().flat_map(|(_, families)| families.keys()).collect();
    let Some(least) = all.iter().map(|words| words.len()).min() else { return Vec::new() };
    let mut plainest = all.into_iter().filter(|words| words.len() == least);
    let (Some(family), None) = (plainest.next(), plainest.next()) else { return Vec::new() };
    let newest = |(provider, families): &(&'static Provider, Families<'_>)| {
        let words = families.keys().filter(|words| words.is_superset(family)).min_by_key(|words| words.len())?;
        Some(Meant { model: newest(&families[words])?.to_owned(), provider })
    };
    families.iter().filter_map(newest).collect()
}

/// Models whose names have all words of this one, or else the one whose name is spelled most like it: as `provider/model`.
pub fn near(name: &str, catalogue: &Catalogue, spelled_like: impl Fn(&[String]) -> Option<String>) -> Vec<String> {
    const MOST: usize = 3;
    let wanted: Vec<&str> = name.split(SEPARATORS).collect();
    let mut near = Vec::new();
    let mut all = Vec::new();
    for provider in PROVIDERS {
        let names = catalogue.names(provider.name);
        let families = families(wanted[0], &names);
        let fitting = families.iter().filter(|(words, _)| wanted.iter().all(|word| words.contains(word)));
        let mut fitting: Vec<_> = fitting.collect();
        fitting.sort_by_key(|(words, _)| words.len());
        let newest = fitting.into_iter().filter_map(|(_, members)| newest(members));
        near.extend(newest.map(|model| format!("{}/{model}", provider.name)));
        all.extend(names);
    }
    near.truncate(MOST);
    if near.is_empty() { spelled_like(&all).into_iter().collect() } else { near }
}

/// The members of each family, by its words, with their versions.
type Families<'n> = BTreeMap<BTreeSet<&'n str>, Vec<(Vec<u32>, &'n str)>>;

/// What parts the words of a model's name.
const SEPARATORS: [char; 4] = ['-', '.', '@', ':'];

/// The families that have this word in their name. The maker's name before a `/` is none of its words, and a dated name is
/// another name of a member.
fn families<'n>(word: &str, names: &'n [String]) -> Families<'n> {
    let mut families: Families<'_> = BTreeMap::new();
    for name in names {
        let own = name.rsplit('/').next().unwrap_or_default();
        let (numbers, words): (Vec<&str>, Vec<&str>) =
            own.split(SEPARATORS).partition(|part| part.parse::<u32>().is_ok());
        let is_dated = numbers.iter().any(|number| number.len() > 3);
        if words.contains(&word) && !is_dated {
            let version = numbers.iter().filter_map(|number| number.parse().ok()).collect();
            families.entry(words.into_iter().collect()).or_default().push((version, name));
        }
    }
    families
}

/// The newest member of a family.
fn newest<'n>(members: &[(Vec<u32>, &'n str)]) -> Option<&'n str> {
    members.iter().min_by_key(|(version, name)| (Reverse(version), *name)).map(|(_, name)| *name)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn all(name: &str) -> Vec<String> {
        let meant = meant(name, &Catalogue::default());
        meant.into_iter().map(|Meant { provider, model }| format!("{}/{model}", provider.name)).collect()
    }

    #[test]
    fn a_name_of_the_catalogue_is_found_at_the_providers_that_have_it() {
        let found = all("claude-sonnet-4-5");
        assert_eq!(found.first().map(String::as_str), Some("anthropic/claude-sonnet-4-5"));
        assert!(found.iter().all(|name| name.ends_with("/claude-sonnet-4-5")), "{found:?}");
        assert!(all("gpt-5.4").contains(&"openai/gpt-5.4".to_owned()));
    }

    #[test]
    fn a_family_is_its_newest_member() {
        let names = |names: &[&str]| names.iter().map(|name| (*name).to_owned()).collect::<Vec<_>>();
        let some = names(&["a-fox-4-5", "a-fox-4-5-20250929", "a-fox-5", "a-fox-4-20", "x/a-fox-mini-9", "a-3-7-fox"]);
        let of = |word: &str| families(word, &some).values().filter_map(|members| newest(members)).collect::<Vec<_>>();
        assert_eq!(of("fox"), ["a-fox-5", "x/a-fox-mini-9"]);
        assert_eq!((of("mini"), of("wolf"), of("x")), (vec!["x/a-fox-mini-9"], vec![], vec![]));
        assert!(all("sonnet").iter().any(|name| name.starts_with("anthropic/claude-sonnet-")));
        assert!(all("sonnet").iter().all(|name| name.contains("claude-sonnet")));
        assert_eq!(all("no-such-model"), Vec::<String>::new());
    }

    /// A typing mistake must not send anything to another vendor.
    #[test]
    fn a_word_of_several_families_or_of_few_letters_means_no_model() {
        for name in ["a", "x", "ai", "gpt", "mini", "gemini", "claude-sonnet"] {
            assert_eq!(all(name), Vec::<String>::new(), "{name}");
        }
    }

    #[test]
    fn what_may_have_been_meant_has_all_the_words() {
        let near = |name: &str| near(name, &Catalogue::default(), |all| all.first().cloned());
        assert!(near("claude-sonnet")[0].starts_with("anthropic/claude-sonnet-"), "{:?}", near("claude-sonnet"));
        let gemini = near("gemini");
        assert!(gemini.len() <= 3 && gemini.iter().all(|name| name.contains("gemini")), "{gemini:?}");
        assert_eq!(near("no-such-model").len(), 1, "by its spelling");
    }
}
