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

/// The models that are meant by a name without a provider: one at most of each provider, in the order of [`PROVIDERS`].
/// Providers that know it by exactly this name come alone.
pub fn meant(name: &str, catalogue: &Catalogue) -> Vec<Meant> {
    let at = |find: &dyn Fn(&[String]) -> Option<String>| -> Vec<Meant> {
        let found =
            |provider: &'static Provider| Some(Meant { model: find(&catalogue.names(provider.name))?, provider });
        PROVIDERS.iter().filter_map(found).collect()
    };
    let exact = at(&|names| names.iter().find(|known| *known == name).cloned());
    if exact.is_empty() { at(&|names| newest(name, names)) } else { exact }
}

/// The newest model of the family that has this word in its name. `None` where there are several families: `mini` is in the
/// names of many.
fn newest(word: &str, names: &[String]) -> Option<String> {
    let mut families: BTreeMap<BTreeSet<&str>, Vec<(Vec<u32>, &String)>> = BTreeMap::new();
    for name in names {
        let (numbers, words): (Vec<&str>, Vec<&str>) =
            name.split(['-', '.', '@', ':']).partition(|part| part.parse::<u32>().is_ok());
        let is_dated = numbers.iter().any(|number| number.len() > 3);
        if words.contains(&word) && !is_dated {
            let version = numbers.iter().filter_map(|number| number.parse().ok()).collect();
            families.entry(words.into_iter().collect()).or_default().push((version, name));
        }
    }
    let plainest = families.keys().map(BTreeSet::len).min()?;
    let mut plain = families.into_iter().filter(|(words, _)| words.len() == plainest);
    let (_, members) = plain.next().filter(|_| plain.next().is_none())?;
    members.into_iter().min_by_key(|(version, name)| (Reverse(version.clone()), *name)).map(|(_, name)| name.clone())
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
        let some = names(&["a-fox-4-5", "a-fox-4-5-20250929", "a-fox-5", "a-fox-4-20", "a-fox-mini-9", "a-3-7-fox"]);
        assert_eq!(newest("fox", &some).as_deref(), Some("a-fox-5"));
        assert_eq!(newest("mini", &some).as_deref(), Some("a-fox-mini-9"));
        assert_eq!(newest("wolf", &some), None);
        assert_eq!(newest("mini", &names(&["a-mini", "b-mini"])), None, "two families");
        assert!(all("sonnet").iter().any(|name| name.starts_with("anthropic/claude-sonnet-")));
        assert_eq!(all("no-such-model"), Vec::<String>::new());
    }
}
