//! Variables whose values the command itself shows, for the paths that they are in: `d=/x; cat $d/y`.

use crate::environment;
use crate::expand::{self, Bit, Field};
use crate::programs::Programs;
use crate::syntax::{Found, Simple, Word};
use std::collections::HashMap;

/// How many values are followed at once.
const MOST_VALUES: usize = 16;
/// How deep values are followed that have variables in them.
const MOST_DEPTH: usize = 4;
/// Variables of the session that are known.
const OF_SESSION: &str = "TMPDIR USER LOGNAME";
/// Variables that bash sets itself.
const OF_BASH: &str = "\
    OLDPWD PWD REPLY OPTARG OPTIND OPTERR RANDOM SRANDOM SECONDS LINENO DIRSTACK FUNCNAME PPID UID EUID GROUPS HOSTNAME \
    HOSTTYPE MACHTYPE OSTYPE PIPESTATUS MAPFILE COPROC SHLVL EPOCHSECONDS EPOCHREALTIME READLINE_LINE COLUMNS LINES _";
/// Builtins whose operands get values that are known only when they run. What stands behind `builtin` and `command` may be one.
const FILL: &str = "read mapfile readarray printf wait getopts unset builtin command let";
/// What may assign anything, out of sight.
const HIDES: &str = "eval source . trap alias";

/// The values that variables may have in a command; of `None` nothing is known. In which order they get them does not matter.
#[derive(Debug, Default)]
pub(crate) struct Variables {
    values: HashMap<String, Option<Vec<Field>>>,
    is_hidden: bool,
}

impl Variables {
    /// Takes in what a text assigns.
    pub(crate) fn learn(&mut self, found: &Found) {
        for simple in &found.simples {
            self.simple(simple);
        }
        for (name, words) in &found.loops {
            for word in words {
                let mut budget = MOST_VALUES;
                match expand::fields(word, &mut budget) {
                    Ok(fields) => fields.into_iter().for_each(|field| self.may_be(name, field)),
                    Err(expand::TooMany) => self.lose(name),
                }
            }
        }
        for (name, _) in &found.set {
            let times = |names: &mut dyn Iterator<Item = &String>| names.filter(|other| *other == name).count();
            let looped = times(&mut found.loops.iter().map(|(name, _)| name));
            if times(&mut found.set.iter().map(|(name, _)| name)) > looped {
                self.lose(name);
            }
        }
    }

    fn simple(&mut self, simple: &Simple) {
        for assignment in &simple.assignments {
            if assignment.is_plain {
                self.may_be(&assignment.name, expand::value(&assignment.value));
            } else {
                self.lose(&assignment.name);
            }
        }
        let literals: Vec<String> = simple.words.iter().filter_map(Word::literal).collect();
        let Some(program) = literals.first() else { return };
        let is_in = |list: &str, word: &str| list.split_whitespace().any(|known| known == word);
        self.is_hidden |= literals.iter().take(2).any(|word| is_in(HIDES, word));
        let declares = matches!(program.as_str(), "declare" | "typeset" | "local");
        if declares {
            let mut budget = MOST_VALUES;
            let options = simple.words.iter().skip(1).filter_map(|word| expand::fields(word, &mut budget).ok());
            self.is_hidden |= environment::refers(&options.flatten().collect::<Vec<_>>());
        }
        if declares || is_in(FILL, program) {
            for word in &literals[1..] {
                self.lose(word.split(['=', '[', '+']).next().unwrap_or_default());
            }
        }
    }

    fn may_be(&mut self, name: &str, value: Field) {
        let values = self.values.entry(name.to_string()).or_insert_with(|| Some(Vec::new()));
        match values {
            Some(known) if known.len() < MOST_VALUES => known.push(value),
            _ => *values = None,
        }
    }

    fn lose(&mut self, name: &str) {
        self.values.insert(name.to_string(), None);
    }

    /// The same fields, each that has only known variables in it as the paths that it may be.
    pub(crate) fn paths(&self, fields: &[Field], programs: &dyn Programs) -> Vec<Field> {
        let all = |field: &Field| self.values_of(field, programs, 0).unwrap_or_else(|| vec![field.clone()]);
        fields.iter().flat_map(all).collect()
    }

    fn values_of(&self, field: &Field, programs: &dyn Programs, depth: usize) -> Option<Vec<Field>> {
        if field.bits.is_empty() {
            let is_text = !field.is_open() || field.only_wildcards;
            return is_text.then(|| vec![field.clone()]);
        }
        let mut all = vec![Field { home: field.home, ..Field::default() }];
        for (at, bit) in field.bits.iter().enumerate() {
            let nexts = match bit {
                Bit::Text(text) => vec![Field { home: field.home && at == 0, ..Field::literal(text) }],
                Bit::Variable(name) => self.value(name, programs, depth)?,
            };
            if all.len() * nexts.len() > MOST_VALUES {
                return None;
            }
            let joined = |front: &Field| {
                let home = front.home;
                let is_first = front.text.is_empty();
                let front = front.text.clone();
                let join = move |next: &Field| Field {
                    home: home || is_first && next.home,
                    ..Field::literal(&format!("{front}{}", next.text))
                };
                nexts.iter().map(join).collect::<Vec<_>>()
            };
            all = all.iter().flat_map(joined).collect();
        }
        let wild = |field: Field| match field.text.find(['*', '?', '[']) {
            Some(at) => Field { known: Some(at), only_wildcards: true, splits: true, ..field },
            None => field,
        };
        Some(all.into_iter().map(wild).collect())
    }

    fn value(&self, name: &str, programs: &dyn Programs, depth: usize) -> Option<Vec<Field>> {
        let is_in = |list: &str| list.split_whitespace().any(|known| known == name);
        match self.values.get(name) {
            None if name == "HOME" => Some(vec![Field { home: true, ..Field::literal("~") }]),
            None if name == "PWD" => Some(vec![Field::literal(".")]),
            None if is_in(OF_SESSION) => programs.variable(name).map(|value| vec![Field::literal(&value)]),
            Some(Some(values))
                if depth < MOST_DEPTH && !self.is_hidden && !is_in(OF_BASH) && !name.starts_with("BASH") =>
            {
                // Before it is assigned it may have another value, from outside.
                if programs.variable(name).is_some() {
                    return None;
                }
                let all: Option<Vec<Vec<Field>>> =
                    values.iter().map(|value| self.values_of(value, programs, depth + 1)).collect();
                all.map(|all| all.concat())
            }
            _ => None,
        }
    }
}
