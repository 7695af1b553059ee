//! Tables of the configuration that set rules of a turn. Each key is declared once: its type, its range if it has
//! one, and the place in the rules that it sets. From that come the struct that is read and its schema, what it changes
//! (`apply`), what it would have to say for the rules to be as they are (`of`), the check of its range (`mistake`), and the
//! flag of the command line that sets it, if it names one (`flags`).
//!
//! A key without `=` sets nothing of the turn; whoever needs it reads the field.

use piton_core::compact::{self, Full};
use piton_core::retry::RetryPolicy;
use piton_core::truncate::OutputCut;
use std::fmt;
use std::str::FromStr;

/// How a key's value and a place in the rules stand for each other.
pub(super) trait Way<Place, Said> {
    /// Changes the place to what was said.
    fn set(place: &mut Place, said: Said);
    /// What would have to be said for the place to be as it is, if anything could.
    fn said(place: &Place) -> Option<Said>;
}

/// The value itself.
pub(super) struct Plain;
/// A limit that is off where nothing is said.
pub(super) struct Limit;
/// A limit that 0 turns off.
pub(super) struct ZeroForNone;
/// Seconds, kept in milliseconds.
pub(super) struct Seconds;
/// US dollars, kept in millionths.
pub(super) struct Dollars;
/// Characters of which head and tail are kept.
pub(super) struct HeadTail;
/// Lines that are kept whole.
pub(super) struct Lines;
/// Bytes of these lines.
pub(super) struct LineBytes;
/// The longest wait, with and without an answer.
pub(super) struct LongestWait;
/// Tokens of the window that are kept free.
pub(super) struct Reserve;
/// Tokens of the newest steps that are kept.
pub(super) struct Keep;

impl<T: Clone> Way<T, T> for Plain {
    fn set(place: &mut T, said: T) {
        *place = said;
    }

    fn said(place: &T) -> Option<T> {
        Some(place.clone())
    }
}

impl<T: Clone> Way<Option<T>, T> for Limit {
    fn set(place: &mut Option<T>, said: T) {
        *place = Some(said);
    }

    fn said(place: &Option<T>) -> Option<T> {
        place.clone()
    }
}

impl Way<Option<u32>, u32> for ZeroForNone {
    fn set(place: &mut Option<u32>, said: u32) {
        *place = Some(said).filter(|most| *most > 0);
    }

    fn said(place: &Option<u32>) -> Option<u32> {
        Some(place.unwrap_or(0))
    }
}

impl Way<Option<u64>, u64> for Seconds {
    fn set(place: &mut Option<u64>, said: u64) {
        *place = Some(said.saturating_mul(1000));
    }

    fn said(place: &Option<u64>) -> Option<u64> {
        place.map(|ms| ms / 1000)
    }
}

impl Way<u64, f64> for Seconds {
    fn set(place: &mut u64, said: f64) {
        // None at all is a wait, too: what a provider asks for is not heeded then.
        *place = if said == 0.0 { 0 } else { super::milliseconds(said) };
    }

    fn said(place: &u64) -> Option<f64> {
        Some(*place as f64 / 1000.0)
    }
}

impl Way<Option<u64>, f64> for Dollars {
    fn set(place: &mut Option<u64>, said: f64) {
        *place = Some((said * 1e6).round() as u64);
    }

    fn said(place: &Option<u64>) -> Option<f64> {
        place.map(|micros| micros as f64 / 1e6)
    }
}

impl Way<OutputCut, usize> for HeadTail {
    fn set(place: &mut OutputCut, max_chars: usize) {
        *place = OutputCut::HeadTail { max_chars };
    }

    fn said(place: &OutputCut) -> Option<usize> {
        match place {
            OutputCut::HeadTail { max_chars } => Some(*max_chars),
            OutputCut::WholeLines { .. } => None,
        }
    }
}

impl Way<OutputCut, usize> for Lines {
    fn set(place: &mut OutputCut, max_lines: usize) {
        let (_, max_bytes) = in_lines(*place);
        *place = OutputCut::WholeLines { max_lines, max_bytes };
    }

    fn said(place: &OutputCut) -> Option<usize> {
        match place {
            OutputCut::WholeLines { max_lines, .. } => Some(*max_lines),
            OutputCut::HeadTail { .. } => None,
        }
    }
}

impl Way<OutputCut, usize> for LineBytes {
    fn set(place: &mut OutputCut, max_bytes: usize) {
        let (max_lines, _) = in_lines(*place);
        *place = OutputCut::WholeLines { max_lines, max_bytes };
    }

    fn said(place: &OutputCut) -> Option<usize> {
        match place {
            OutputCut::WholeLines { max_bytes, .. } => Some(*max_bytes),
            OutputCut::HeadTail { .. } => None,
        }
    }
}

/// The lines and bytes of an output that is cut so; what head and tail come to of one that is not.
fn in_lines(cut: OutputCut) -> (usize, usize) {
    match cut {
        OutputCut::WholeLines { max_lines, max_bytes } => (max_lines, max_bytes),
        OutputCut::HeadTail { max_chars } => (usize::MAX, max_chars),
    }
}

impl Way<RetryPolicy, f64> for LongestWait {
    fn set(place: &mut RetryPolicy, said: f64) {
        let longest = super::milliseconds(said);
        (place.cap_ms, place.cap_answered_ms) = (longest, longest);
    }

    fn said(place: &RetryPolicy) -> Option<f64> {
        Some(place.cap_ms as f64 / 1000.0)
    }
}

impl Way<compact::Compaction, u64> for Reserve {
    fn set(place: &mut compact::Compaction, said: u64) {
        *place = place.clone().with_reserve(said);
    }

    fn said(place: &compact::Compaction) -> Option<u64> {
        match place.full {
            Full::Reserve { tokens, .. } | Full::Reply { reserve_tokens: tokens, .. } => Some(tokens),
            // A part of the window, which is no number of tokens.
            Full::Above { .. } | Full::From { .. } => None,
        }
    }
}

impl Way<compact::KeepRecent, u64> for Keep {
    fn set(place: &mut compact::KeepRecent, tokens: u64) {
        *place = compact::KeepRecent::Tokens { tokens, most_percent: 50 };
    }

    fn said(place: &compact::KeepRecent) -> Option<u64> {
        match place {
            compact::KeepRecent::Tokens { tokens, .. } => Some(*tokens),
            compact::KeepRecent::Turns { .. } | compact::KeepRecent::Nothing => None,
        }
    }
}

/// A number that a key can have.
pub(super) trait Amount: Copy + PartialOrd + fmt::Display + FromStr {
    /// What is said of a value that is none, where only the least is 1.
    const ABOVE_ZERO: &str = "must be a whole number above 0";

    /// As it stands in a file.
    fn value(self) -> toml::Value;
}

impl Amount for u32 {
    fn value(self) -> toml::Value {
        i64::from(self).into()
    }
}

impl Amount for u64 {
    fn value(self) -> toml::Value {
        i64::try_from(self).unwrap_or(i64::MAX).into()
    }
}

impl Amount for usize {
    fn value(self) -> toml::Value {
        i64::try_from(self).unwrap_or(i64::MAX).into()
    }
}

impl Amount for f64 {
    const ABOVE_ZERO: &str = "must be a number, 1 or more";

    fn value(self) -> toml::Value {
        self.into()
    }
}

/// From which amount to which one a key can be set; the most is in this unit.
pub(super) struct Range<T> {
    pub(super) least: T,
    pub(super) most: Option<(T, &'static str)>,
}

impl<T: Amount> Range<T> {
    /// What is wrong with an amount.
    pub(super) fn refuse(&self, said: T) -> Option<String> {
        let is_in = said >= self.least && self.most.is_none_or(|(most, _)| said <= most);
        (!is_in).then(|| self.words())
    }

    /// What an amount must be.
    fn words(&self) -> String {
        match self.most {
            Some((most, unit)) => format!("must be from {} to {most}, in {unit}", self.least),
            None => T::ABOVE_ZERO.to_owned(),
        }
    }

    /// Reads one from the command line. What is wrong is said of "it".
    pub(super) fn read(&self, text: &str) -> Result<toml::Value, String> {
        let said = text.parse().ok().filter(|said| self.refuse(*said).is_none());
        said.map(T::value).ok_or_else(|| format!("it {}", self.words()))
    }
}

/// A flag of the command line that sets a key of a table.
#[derive(Debug, Clone, Copy)]
pub struct TableFlag {
    /// Its name: `--max-steps`.
    pub flag: &'static str,
    /// What its value is called: `N`.
    pub value: &'static str,
    /// The key, from its table down.
    pub key: &'static [&'static str],
    /// What it does, a sentence.
    pub about: &'static str,
    /// Reads its value. What is wrong is said of "it".
    pub read: fn(&str) -> Result<toml::Value, String>,
}

/// Declares a table; see the head of this module.
macro_rules! table {
    ($(#[$about:meta])* pub struct $name:ident = $table:literal sets |$rules:ident: $kind:ty| {
        $(
            $(#[doc = $doc:literal])+ $(#[schemars($($schema:tt)*)])?
            $key:ident: $type:ident
            $(>= $least:literal $(<= $most:literal $unit:literal)? $(as $flag:literal $value:literal)?)?
            $(= $way:ident($place:expr))?,
        )*
    }) => {
        #[derive(Debug, Default, Clone, PartialEq, Deserialize, Serialize, JsonSchema)]
        $(#[$about])*
        #[serde(deny_unknown_fields)]
        pub struct $name {
            $(
                $(#[doc = $doc])+
                $(#[schemars($($schema)*)])?
                $(#[schemars(range(min = $least $(, max = $most)?))])?
                #[serde(skip_serializing_if = "Option::is_none")]
                pub $key: Option<$type>,
            )*
        }

        impl $name {
            /// Changes the rules to what the table says.
            pub(super) fn apply(&self, $rules: &mut $kind) {
                $($(if let Some(said) = self.$key.clone() {
                    $way::set(&mut $place, said);
                })?)*
            }

            /// What the table would have to say for the rules to be as they are.
            pub(super) fn of($rules: &$kind) -> Self {
                Self { $($key: said_of!($($way($place))?),)* }
            }

            /// The first key whose value is out of its range.
            pub(super) fn mistake(&self) -> Option<Mistake> {
                $($(
                    let range = Range { least: $least, most: most_of!($($most $unit)?) };
                    if let Some(refused) = self.$key.and_then(|said| range.refuse(said)) {
                        return Some(Mistake::new([$table, stringify!($key)], refused));
                    }
                )?)*
                None
            }

            /// The flags that set a key of it.
            pub fn flags() -> impl Iterator<Item = TableFlag> {
                let all = [$(flag_of!($type $key $table [$($doc)+] $($least [$($most $unit)?] $($flag $value)?)?)),*];
                all.into_iter().flatten()
            }
        }
    };
}

/// The most that a key can have, with its unit.
macro_rules! most_of {
    () => {
        None
    };
    ($most:literal $unit:literal) => {
        Some(($most, $unit))
    };
}

/// The flag that sets a key, if there is one.
macro_rules! flag_of {
    ($type:ident $key:ident $table:literal [$($doc:literal)+] $least:literal [$($most:literal $unit:literal)?] $flag:literal $value:literal) => {
        Some(TableFlag {
            flag: $flag,
            value: $value,
            key: &[$table, stringify!($key)],
            about: concat!($($doc),+),
            read: |text| Range::<$type> { least: $least, most: most_of!($($most $unit)?) }.read(text),
        })
    };
    ($($rest:tt)*) => {
        None
    };
}

/// What a key would have to say, if it sets anything.
macro_rules! said_of {
    () => {
        None
    };
    ($way:ident($place:expr)) => {
        $way::said(&$place)
    };
}

pub(super) use {flag_of, most_of, said_of, table};
