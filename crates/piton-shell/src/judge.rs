//! From simple commands to parts: wrappers are looked through, code in strings is read, programs are judged by their arguments.

mod git;
mod orders;

use crate::arguments::has_files;
use crate::below;
use crate::environment::{self, Name, disarms, steers};
use crate::expand::{self, Field};
use crate::harmless;
use crate::interpreters;
use crate::judged::{self, Judged, Under};
use crate::limits::{MOST_NESTING, MOST_NODES};
use crate::listing;
use crate::mentions;
use crate::parse::{self, Place};
use crate::places::{self, Places};
use crate::programs::Programs;
use crate::reading::{Below, Effect, Part, Reading, UnknowableKind};
use crate::shells;
use crate::special;
use crate::syntax::{Assignment, Direction, Found, Redirect, Simple, Word};
use crate::variables::Variables;
use crate::wrappers::{self, Inside, Own, Seen};
use std::collections::{BTreeSet, HashSet};
use std::ops::Range;

/// Reads a whole command, and code within it.
pub(crate) struct Judge<'p> {
    programs: &'p dyn Programs,
    reading: Reading,
    functions: HashSet<String>,
    /// Files that the command itself writes: to run one of them is to run what it made.
    written: HashSet<String>,
    ran: Vec<(String, Context)>,
    places: Places,
    variables: Variables,
    /// Folders that the command moves to once its part is made.
    moves: Vec<Field>,
    /// Whether the last simple command prints names of files.
    lists: bool,
    /// The folders that these lie below, where that is known.
    listing: Vec<Under>,
    /// Parts whose added arguments lie below folders if the whole command changes nothing: by their number.
    listed: Vec<(usize, Vec<String>)>,
    nodes: usize,
    /// Names with a dot in values of variables and in inputs.
    named_hosts: BTreeSet<String>,
}

/// Where a simple command stands.
#[derive(Debug, Clone)]
struct Context {
    text: String,
    span: Range<usize>,
    depth: usize,
    fed: bool,
    /// The text that its input is, where that is known.
    input: Option<String>,
    through: Vec<String>,
    risky: Vec<String>,
    /// Where the files lie that whoever runs it gives it.
    found: Vec<Under>,
    /// Whether whoever runs it adds arguments that may be anything.
    adds: bool,
    /// Whether its input are names of files, from a program that lists them.
    listed: bool,
    /// The folders that these lie below, where that is known.
    folders: Vec<Under>,
}

impl<'p> Judge<'p> {
    pub(crate) fn new(programs: &'p dyn Programs) -> Self {
        Self {
            programs,
            reading: Reading::default(),
            functions: HashSet::new(),
            written: HashSet::new(),
            ran: Vec::new(),
            places: Places::default(),
            variables: Variables::default(),
            moves: Vec::new(),
            lists: false,
            listing: Vec::new(),
            listed: Vec::new(),
            nodes: 0,
            named_hosts: BTreeSet::new(),
        }
    }

    /// What was found, once all is read.
    pub(crate) fn finish(mut self) -> Reading {
        for (program, context) in std::mem::take(&mut self.ran) {
            if self.written.contains(&program) {
                self.unknowable(UnknowableKind::Code, &program, &context);
            }
        }
        self.settle_listed();
        self.reading.parts.sort_by_key(|part| part.span.start);
        self.hosts_anywhere();
        self.reading.unknowable.dedup();
        self.reading
    }

    /// What does something may talk to a host that stands in another part, in a variable or in an input. The first such part has them
    /// for all, since a command is as forbidden as one of its parts. A redirection by itself runs nothing that could.
    fn hosts_anywhere(&mut self) {
        let mut found = std::mem::take(&mut self.named_hosts);
        for part in &self.reading.parts {
            let texts = part.words.iter().chain(&part.through).chain(&part.code);
            texts.for_each(|text| mentions::hosts(text, &mut found));
        }
        let may_reach = |part: &&mut Part| part.effect != Effect::ChangesNothing && !part.words.is_empty();
        if let Some(part) = self.reading.parts.iter_mut().find(may_reach) {
            part.may_reach = found.into_iter().collect();
        }
    }

    /// Reads a text: the command itself, or code in it.
    pub(crate) fn code(&mut self, text: &str, place: Place) {
        let depth = place.depth;
        let mut found = Found { nodes: self.nodes, ..Found::default() };
        parse::parse(text, place, &mut found);
        self.nodes = found.nodes;
        self.reading.unknowable.append(&mut found.unknowable);
        self.names(&found);
        self.variables.learn(&found);
        let looped = found.loops.iter().flat_map(|(_, words)| words.iter().filter_map(Word::literal));
        looped
            .chain(found.bodies.iter().flatten().cloned())
            .for_each(|text| mentions::hosts(&text, &mut self.named_hosts));
        let mut simples = std::mem::take(&mut found.simples);
        simples.sort_by_key(|simple| simple.span.start);
        for simple in &simples {
            self.simple(simple, &found, depth);
        }
    }

    /// What functions, loops, expansions and arithmetic do to names.
    fn names(&mut self, found: &Found) {
        for (name, span) in &found.functions {
            if self.is_known(name) {
                self.note(UnknowableKind::Shadow, name, span);
            }
            self.functions.insert(name.clone());
        }
        for (name, span) in &found.set {
            // Without a name it is one that only shows when it runs.
            if name.is_empty() || steers(name) {
                self.note(UnknowableKind::Environment, name, span);
            }
        }
        let read: Vec<String> = found
            .simples
            .iter()
            .filter(|simple| fills(simple))
            .flat_map(|simple| simple.words.iter().filter_map(Word::literal))
            .collect();
        for (name, span) in &found.evaluated {
            let filled = read.contains(name) || found.filled.iter().any(|(filled, _)| filled == name);
            let parameter = name.starts_with(|c: char| c.is_ascii_digit());
            if name.is_empty() || filled || parameter && !found.functions.is_empty() {
                self.note(UnknowableKind::Code, name, span);
            }
        }
    }

    fn simple(&mut self, simple: &Simple, found: &Found, depth: usize) {
        let listed = self.lists_into(simple);
        let mut context = Context {
            text: simple.text.clone(),
            span: simple.span.clone(),
            depth,
            fed: simple.fed,
            input: None,
            through: Vec::new(),
            risky: Vec::new(),
            found: Vec::new(),
            adds: false,
            listed: listed.is_some(),
            folders: listed.unwrap_or_default(),
        };
        let program = simple.words.first().and_then(Word::bare);
        for assignment in &simple.assignments {
            if !environment::is_of_builtin(&assignment.name, program) {
                self.assigned(&assignment.name, assignment.value.literal().as_deref(), &context);
            }
        }
        self.referred(simple, found, &context);
        let mut judged = Judged::of(Effect::ChangesNothing);
        for redirect in &simple.redirects {
            self.redirect(redirect, found, &mut judged, &mut context);
        }
        match self.expand(&simple.words) {
            Ok(fields) if fields.is_empty() => {
                if !simple.redirects.is_empty() || !simple.assignments.is_empty() {
                    self.part(&[], Vec::new(), judged, &context);
                }
            }
            Ok(fields) => self.command(&fields, judged, context),
            Err(expand::TooMany) => self.unknowable(UnknowableKind::TooLarge, &simple.text, &context),
        }
    }

    fn expand(&mut self, words: &[Word]) -> Result<Vec<Field>, expand::TooMany> {
        let mut budget = (2 * MOST_NODES).saturating_sub(self.nodes);
        let before = budget;
        let mut fields = Vec::new();
        for word in words {
            fields.extend(expand::fields(word, &mut budget)?);
        }
        self.nodes += (before - budget).saturating_sub(words.len());
        if self.nodes > MOST_NODES { Err(expand::TooMany) } else { Ok(fields) }
    }

    /// A variable gets a value: in front of a command, alone, or by `env`.
    fn assigned(&mut self, name: &str, value: Option<&str>, context: &Context) {
        if steers(name) && !value.is_some_and(|value| disarms(name, value)) {
            self.unknowable(UnknowableKind::Environment, name, context);
        }
        if let Some(value) = value {
            mentions::hosts(value, &mut self.named_hosts);
        }
        // Arithmetic, `${!name}` and prompts would run it.
        if value.is_some_and(holds_code) {
            self.unknowable(UnknowableKind::Code, name, context);
        }
    }

    /// `declare -n name=other`: what is assigned to the one is assigned to the other, which has to be known and to steer nothing. A loop
    /// over such a name gives it another.
    fn referred(&mut self, simple: &Simple, found: &Found, context: &Context) {
        let declares = simple
            .words
            .first()
            .and_then(Word::bare)
            .is_some_and(|word| matches!(word, "declare" | "typeset" | "local"));
        let mut budget = MOST_NODES;
        let options: Vec<Field> =
            simple.words.iter().skip(1).filter_map(|word| expand::fields(word, &mut budget).ok()).flatten().collect();
        if !declares || !environment::refers(&options) {
            return;
        }
        let is_alone = simple.assignments.is_empty() || options.iter().any(|field| !field.text.starts_with('-'));
        let is_set = |name: &str| found.set.iter().any(|(set, _)| set == name);
        let is_open = |assignment: &Assignment| {
            let other = assignment.value.literal();
            let name = other.as_deref().and_then(|other| other.split('[').next());
            is_set(&assignment.name) || name.is_none_or(steers)
        };
        if is_alone || simple.assignments.iter().any(is_open) {
            self.unknowable(UnknowableKind::Environment, &simple.text, context);
        }
    }

    fn redirect(&mut self, redirect: &Redirect, found: &Found, judged: &mut Judged, context: &mut Context) {
        let target = match redirect.direction {
            Direction::HereDocument(index) => {
                if redirect.input {
                    context.fed = true;
                    context.input.clone_from(&found.bodies[index]);
                }
                return;
            }
            Direction::HereString => {
                if redirect.input {
                    context.fed = true;
                    context.input = redirect.target.literal();
                    if let Some(text) = &context.input {
                        mentions::hosts(text, &mut self.named_hosts);
                    }
                }
                return;
            }
            Direction::Read | Direction::Write | Direction::ReadWrite | Direction::Duplicate => &redirect.target,
        };
        context.fed |= redirect.input && redirect.target.literal().is_none_or(|file| file != "/dev/null");
        let mut budget = 2;
        let fields = expand::fields(target, &mut budget).unwrap_or_else(|_| vec![Field::unknown("…")]);
        for field in fields {
            let text = field.text.as_str();
            let descriptor = text.trim_end_matches('-').bytes().all(|byte| byte.is_ascii_digit());
            match redirect.direction {
                Direction::Duplicate if descriptor => {}
                _ if matches!(text, "/dev/null" | "/dev/stdout" | "/dev/stderr" | "/dev/tty")
                    || text.starts_with(">(")
                    || text.starts_with("<(") => {}
                _ if text.starts_with("/dev/tcp/") || text.starts_with("/dev/udp/") => {
                    judged.effect = Effect::Changes;
                    let mut pieces = text.split('/').skip(3);
                    let host = pieces.next().unwrap_or_default();
                    judged.hosts.push(pieces.next().map_or(host.to_string(), |port| format!("{host}:{port}")));
                }
                Direction::Read => judged.reads.push(field),
                Direction::ReadWrite => {
                    judged.effect = Effect::Changes;
                    judged.reads.push(field.clone());
                    judged.writes.push(field);
                }
                _ => {
                    judged.effect = Effect::Changes;
                    judged.writes.push(field);
                }
            }
        }
    }

    /// A command: its words, with what its redirections already did.
    fn command(&mut self, fields: &[Field], redirected: Judged, context: Context) {
        if context.depth > MOST_NESTING {
            self.unknowable(UnknowableKind::TooLarge, &context.text.clone(), &context);
            return;
        }
        let Some(program) = fields.first() else { return };
        if program.is_open() || program.text.starts_with('=') {
            self.unknowable(UnknowableKind::Program, &program.text, &context);
            self.part(fields, vec![program.text.clone()], merge(Judged::of(Effect::Unknown), redirected), &context);
            return;
        }
        let names = self.names_of(&program.text);
        if self.functions.contains(&program.text) {
            self.part(fields, names, merge(Judged::of(Effect::Unknown), redirected), &context);
            return;
        }
        let name = names.iter().find(|name| self.is_table(name)).unwrap_or(&names[0]).clone();
        if program.text.contains('/') {
            self.runs(program, &context);
        }
        if let Some(seen) = wrappers::look_through(&name, fields) {
            self.wrapped(&name, seen, fields, redirected, context);
            return;
        }
        let arguments = &fields[1..];
        self.added(&name, arguments, &context);
        if shells::runs_code(&name) {
            self.shell(&name, fields, redirected, context);
            return;
        }
        self.found_by(&name, arguments, &context);
        let mut judged = harmless::judge(&name, arguments);
        if interpreters::is_interpreter(&name) {
            self.interpreter(&name, arguments, &mut judged, &context);
        }
        if judged.runs_open || special::open_program(&name, arguments) {
            self.unknowable(UnknowableKind::Code, &context.text, &context);
        }
        // Nobody knows which of its words a program runs that is in no table.
        let is_unknown = !self.is_table(&name) && !has_files(&name);
        if judged.code.is_none() && (is_unknown || !judged.risky.is_empty() || harmless::takes_commands(&name)) {
            judged.code = Some(orders::spelled_out(arguments));
        }
        if judged.code.is_none() && judged.effect == Effect::Unknown && !harmless::takes_messages(&name) {
            judged.code = orders::composed(arguments);
        }
        self.orders(&name, arguments, &mut judged, &context);
        judged.below = below::of(&name, arguments, context.fed, &judged.reads);
        if !below::only_names(&name) {
            judged.below.extend(context.found.iter().cloned());
        }
        let places = self.places.clone();
        if name == "git" {
            for folder in self.paths(&crate::git::folders(arguments).cloned().collect::<Vec<_>>()) {
                self.places.go(&folder);
            }
        }
        self.builtin(&name, arguments, &mut judged, &context);
        if is_unknown && self.may_run(arguments) {
            self.unknowable(UnknowableKind::Runner, &context.text.clone(), &context);
        }
        let moves = !self.moves.is_empty();
        self.part(fields, names, merge(judged, redirected), &context);
        if !moves {
            self.places = places;
        }
    }

    /// Arguments that come from elsewhere, where the program would take one of them for code, or for an option that holds code.
    fn added(&mut self, name: &str, arguments: &[Field], context: &Context) {
        let mut options = arguments.iter().take_while(|field| field.text != "--");
        let takes_code = special::takes_code(name) || harmless::takes_commands(name);
        if context.adds && !context.listed && takes_code && options.any(|field| field.may_be_option() && field.splits) {
            self.unknowable(UnknowableKind::Code, &context.text, context);
        }
    }

    /// Whether what is in front of a pipe to this command prints nothing but names of files, and below which folders.
    fn lists_into(&mut self, simple: &Simple) -> Option<Vec<Under>> {
        let texts: Vec<String> = simple.words.iter().filter_map(Word::literal).collect();
        let has_own = simple.redirects.iter().any(|redirect| redirect.input);
        let listed = simple.piped && !has_own && self.lists;
        let folders = if listed { std::mem::take(&mut self.listing) } else { Vec::new() };
        self.lists = lists_names(&texts, listed);
        self.listing.clear();
        if self.lists {
            let mut budget = MOST_NODES;
            let words: Result<Vec<_>, _> = simple.words.iter().map(|word| expand::fields(word, &mut budget)).collect();
            self.listing = words.map(|words| listing::folders(&words.concat(), &folders)).unwrap_or_default();
        }
        listed.then_some(folders)
    }

    /// Takes what `xargs` adds to a part for files below the folders that are listed to it, once nothing in the command changes a name.
    fn settle_listed(&mut self) {
        let changes_nothing = self.reading.changes_nothing();
        for (part, folders) in std::mem::take(&mut self.listed).into_iter().filter(|_| changes_nothing) {
            let part = &mut self.reading.parts[part];
            part.unresolved_paths.retain(|path| !is_whole_name(path));
            part.reads.extend(folders);
        }
    }

    /// What a wrapper runs.
    fn wrapped(&mut self, name: &str, seen: Seen, fields: &[Field], redirected: Judged, mut context: Context) {
        for (variable, value) in &seen.assignments {
            self.assigned(variable, Some(value), &context);
        }
        for name in seen.own.sets.iter().map(Name::of) {
            self.named(name, &context);
        }
        if name == "exec" && matches!(seen.inside, Inside::Nothing)
            || name == "command" && fields.get(1).is_some_and(|field| matches!(field.text.as_str(), "-v" | "-V"))
        {
            self.part(fields, vec![name.to_string()], merge(Judged::of(Effect::ChangesNothing), redirected), &context);
            return;
        }
        if seen.elevates {
            context.risky.push(fields[0].text.clone());
        }
        context.risky.extend(seen.own.risky.iter().cloned());
        let mut own = seen.own;
        if name == "script" {
            own.writes.extend(Some(shells::typescript(&fields[1..])).filter(|file| file.text != "/dev/null"));
        }
        self.by_options(name, fields, &own, &context);
        if !matches!(name, "xargs" | "gxargs") || own.is_split_otherwise || !own.reads.is_empty() {
            context.folders.clear();
        }
        context.found.extend(context.folders.iter().cloned());
        let input = (context.input.clone(), context.fed);
        let places = self.places.clone();
        self.paths(&own.moves).iter().for_each(|folder| self.places.go(folder));
        if !seen.keeps_input {
            context.input = None;
            context.fed = true;
        }
        let outer = context.clone();
        let shown = seen.shown;
        context.through.push(shown.clone());
        context.depth += 1;
        context.adds |= seen.adds;
        match seen.inside {
            Inside::Nothing => {
                self.alone(name, fields, &shown, redirected, &outer);
                if wrappers::starts_shell(name, &fields[1..]) {
                    self.shell_input(input, &context);
                }
            }
            Inside::Unknowable => {
                self.unknowable(UnknowableKind::Program, &outer.text.clone(), &outer);
                let judged = merge(Judged::of(Effect::Unknown), redirected);
                self.part(fields, self.names_of(&fields[0].text), judged, &outer);
                self.suspects(&fields[1..], &context);
            }
            // `flock file -c code`, and a wrapper's own help.
            Inside::Command(inner) if name == "flock" && inner[0].text == "-c" => {
                self.read_code(inner.get(1), &context);
            }
            Inside::Command(inner) => self.command(&inner, redirected, context),
            Inside::Code(words) => {
                if !redirected.writes.is_empty() || !redirected.reads.is_empty() || harmless::takes_commands(name) {
                    self.alone(name, fields, &shown, redirected, &outer);
                }
                self.read_code(Some(&expand::joined(&words)), &context);
            }
        }
        if !own.moves.is_empty() {
            self.places = places;
        }
    }

    /// What the options of a wrapper run, read and write themselves.
    fn by_options(&mut self, name: &str, fields: &[Field], own: &Own, context: &Context) {
        for code in &own.code {
            let mut inner = context.clone();
            inner.through.push(format!("{name} …"));
            inner.depth += 1;
            self.read_code(Some(code), &inner);
        }
        if !own.writes.is_empty() || !own.reads.is_empty() {
            let effect = if own.writes.is_empty() { Effect::ChangesNothing } else { Effect::Changes };
            let judged = Judged { writes: own.writes.clone(), reads: own.reads.clone(), ..Judged::of(effect) };
            let judged = merge(judged, Judged::of(Effect::ChangesNothing));
            self.part(fields, self.names_of(&fields[0].text), judged, context);
        }
    }

    /// The wrapper itself, where it runs nothing or does more than to run something.
    fn alone(&mut self, name: &str, fields: &[Field], shown: &str, redirected: Judged, outer: &Context) {
        let quiet = matches!(name, "env" | "xargs" | "time" | "nice" | "command");
        let mut judged = merge(Judged::of(if quiet { Effect::ChangesNothing } else { Effect::Unknown }), redirected);
        if harmless::takes_commands(name) {
            judged.code = Some(shown.to_string());
        }
        if name == "ssh" {
            judged.hosts.extend(shown.rsplit(' ').next().and_then(judged::host));
        }
        self.part(fields, self.names_of(&fields[0].text), judged, outer);
    }

    /// Where a wrapper could not be read: every word that could be the program is a part of its own, for a rule to see.
    fn suspects(&mut self, fields: &[Field], context: &Context) {
        for (at, field) in fields.iter().enumerate() {
            if self.is_known(&field.text) && !field.is_open() {
                let names = self.names_of(&field.text);
                self.part(&fields[at..], names, Judged::of(Effect::Unknown), context);
            }
        }
    }

    /// A shell, or a builtin that runs a text.
    fn shell(&mut self, name: &str, fields: &[Field], redirected: Judged, mut context: Context) {
        let arguments = &fields[1..];
        let code = shells::code(name, arguments);
        let effect = if (matches!(code, shells::Code::Input) && context.input.is_some())
            || matches!(code, shells::Code::None | shells::Code::Text(_))
        {
            Effect::ChangesNothing
        } else {
            Effect::Unknown
        };
        let mut judged = Judged { below: context.found.clone(), ..Judged::of(effect) };
        if let shells::Code::File(file) = &code {
            judged.reads.push(file.clone());
        }
        if name == "script" {
            judged.effect = Effect::Changes;
            judged.writes.push(shells::typescript(arguments));
        }
        self.part(fields, self.names_of(&fields[0].text), merge(judged, redirected), &context);
        context.through.push(fields[0].text.clone());
        context.depth += 1;
        match code {
            shells::Code::None => {}
            shells::Code::Text(field) => self.read_code(Some(&field), &context),
            shells::Code::Input => match context.input.take() {
                Some(text) => self.read_code(Some(&Field::literal(&text)), &context),
                None => self.unknowable(UnknowableKind::Code, &context.text.clone(), &context),
            },
            shells::Code::Elsewhere | shells::Code::File(_) => {
                self.unknowable(UnknowableKind::Code, &context.text.clone(), &context);
            }
            shells::Code::Alias => self.unknowable(UnknowableKind::Shadow, &context.text.clone(), &context),
        }
    }

    /// Reads code, as deep as the command that runs it.
    fn read_code(&mut self, code: Option<&Field>, context: &Context) {
        let Some(code) = code else { return };
        let from = self.reading.parts.len();
        if code.is_open() {
            self.unknowable(UnknowableKind::Code, &code.text, context);
        }
        if context.depth > MOST_NESTING {
            self.unknowable(UnknowableKind::TooLarge, &code.text, context);
            return;
        }
        let place = Place { within: Some(context.span.clone()), depth: context.depth, fed: context.fed };
        self.code(&code.text, place);
        for part in &mut self.reading.parts[from..] {
            part.through.splice(0..0, context.through.iter().cloned());
            part.risky.extend(context.risky.iter().cloned());
            if !context.risky.is_empty() {
                part.effect = part.effect.at_least_unknown();
            }
        }
    }

    /// The commands that `find` and `fd` run.
    fn found_by(&mut self, name: &str, arguments: &[Field], context: &Context) {
        for (at, command) in special::fd_runs(name, arguments) {
            let mut inner = context.clone();
            inner.found = below::found_by_fd(&arguments[..at]);
            inner.through.push(name.to_string());
            inner.depth += 1;
            self.command(&command, Judged::of(Effect::ChangesNothing), inner);
        }
        if !matches!(name, "find" | "gfind") {
            return;
        }
        let Some(commands) = special::find_runs(arguments) else {
            self.unknowable(UnknowableKind::Program, &context.text, context);
            return;
        };
        for (at, command) in commands {
            let mut inner = context.clone();
            inner.found = below::found_by_find(&arguments[..at]);
            inner.through.push("find".to_string());
            inner.depth += 1;
            // A file name in the middle of code is code.
            let code = command.iter().skip(1).any(|field| {
                field.text.contains("{}")
                    && field.text != "{}"
                    && field.text != "./{}"
                    && field.text.contains([' ', ';', '|', '&'])
            });
            if code
                && command
                    .first()
                    .is_some_and(|field| self.names_of(&field.text).iter().any(|name| shells::runs_code(name)))
            {
                self.unknowable(UnknowableKind::Code, &inner.text.clone(), &inner);
            }
            self.command(&command, Judged::of(Effect::ChangesNothing), inner);
        }
    }

    fn interpreter(&mut self, name: &str, arguments: &[Field], judged: &mut Judged, context: &Context) {
        let script = arguments.iter().find(|field| !field.text.starts_with('-'));
        let version = judged.effect == Effect::ChangesNothing;
        if !version && special::reads_code_from_input(name, arguments, judged) {
            match &context.input {
                Some(text) => {
                    let code = judged.code.get_or_insert_default();
                    code.push('\n');
                    code.push_str(text);
                }
                None => self.unknowable(UnknowableKind::Code, &context.text, context),
            }
        }
        let edited = |script: &&Field| judged.writes.iter().any(|field| field.text == script.text);
        if let Some(script) = script.filter(|script| !edited(script)) {
            self.runs(script, context);
        }
        let open = arguments.iter().any(Field::is_open);
        if judged.code.is_some()
            && open
            && arguments
                .iter()
                .any(|field| field.is_open() && judged.code.as_deref().is_some_and(|code| code.contains(&field.text)))
        {
            self.unknowable(UnknowableKind::Code, &context.text, context);
        }
    }

    /// Builtins that set variables, move to another folder, or evaluate their arguments.
    fn builtin(&mut self, name: &str, arguments: &[Field], judged: &mut Judged, context: &Context) {
        match name {
            "cd" | "pushd" | "popd" => {
                let target = arguments.iter().find(|field| !field.text.starts_with('-') || field.text == "-");
                judged.reads.extend(target.filter(|field| field.text != "-").cloned());
                // Without an argument it is the home folder.
                let home = Field { home: true, ..Field::literal("~") };
                self.moves.push(target.cloned().unwrap_or(home));
            }
            "export" | "declare" | "typeset" | "local" | "readonly" | "read" | "unset" | "printf" | "test" | "["
            | "let" | "mapfile" | "readarray" | "getopts" | "wait" => {
                self.names_set(name, arguments, context);
                let format = name == "printf" && !arguments.first().is_some_and(|field| field.text.starts_with("-v"));
                let compares = matches!(name, "test" | "[")
                    && !arguments.iter().any(|field| field.text == "-v" || field.text == "-R");
                if !format && !compares && arguments.iter().any(|field| !field.is_open() && holds_code(&field.text)) {
                    self.unknowable(UnknowableKind::Code, &context.text, context);
                }
                if name == "let" && arguments.iter().any(Field::is_open) {
                    self.unknowable(UnknowableKind::Code, &context.text, context);
                }
                if matches!(name, "mapfile" | "readarray") && environment::calls_back(arguments) {
                    self.unknowable(UnknowableKind::Code, &context.text, context);
                }
                if judged.effect == Effect::Unknown
                    && matches!(
                        name,
                        "export" | "declare" | "typeset" | "local" | "readonly" | "let" | "mapfile" | "readarray"
                    )
                {
                    judged.effect = Effect::ChangesNothing;
                }
            }
            "shopt" if arguments.iter().any(|field| field.is_open() || shells::widens(&field.text)) => {
                self.unknowable(UnknowableKind::Environment, &context.text, context);
            }
            "set" | "shopt" if environment::widens_assignments(arguments) => {
                self.unknowable(UnknowableKind::Environment, &context.text, context);
            }
            "set" | "shopt" | "umask" | "ulimit" => judged.effect = Effect::ChangesNothing,
            "hash" | "enable" | "compgen" | "complete" | "bind" | "fc" | "history" if !arguments.is_empty() => {
                self.unknowable(UnknowableKind::Shadow, &context.text, context);
            }
            "git" => self.git(arguments, judged, context),
            _ => {}
        }
    }

    /// Something gives the variable of this name a value.
    fn named(&mut self, name: Name, context: &Context) {
        match name {
            Name::Known(variable) if !steers(&variable) => {}
            Name::Known(text) | Name::Open(text) => self.unknowable(UnknowableKind::Environment, &text, context),
        }
    }

    /// The variables that a builtin sets by its arguments.
    fn names_set(&mut self, name: &str, arguments: &[Field], context: &Context) {
        for set in environment::set_by(name, arguments) {
            self.named(set, context);
        }
        let declares = matches!(name, "declare" | "typeset" | "local");
        // In front of `builtin` and its like they are no assignments for the parser.
        let names = arguments.iter().any(|field| !field.text.starts_with('-'));
        if declares && names && environment::refers(arguments) {
            self.unknowable(UnknowableKind::Environment, &context.text, context);
        }
        let inside = |c: char| c == '_' || c.is_ascii_alphanumeric();
        let words = arguments.iter().flat_map(|field| field.text.split(|c| !inside(c)));
        if name == "let" && words.into_iter().any(steers) {
            self.unknowable(UnknowableKind::Environment, &context.text, context);
        }
    }

    /// Whether the first arguments of a program that is in no table name one that is.
    fn may_run(&self, arguments: &[Field]) -> bool {
        let common = ["test", "install", "help", "info", "build", "run", "start", "stop", "time", "true", "false"];
        let known =
            |field: &Field| !field.is_open() && self.is_known(&field.text) && !common.contains(&field.text.as_str());
        let plain = |field: &&Field| {
            !field.text.starts_with('-')
                && !field.text.contains('=')
                && !field.text.starts_with(|c: char| c.is_ascii_digit())
        };
        let behind_dashes = arguments.iter().skip_while(|field| field.text != "--").nth(1);
        let first = arguments.iter().find(plain);
        // The value of an option may stand in front of it.
        let second = arguments
            .iter()
            .filter(plain)
            .nth(1)
            .filter(|_| arguments.first().is_some_and(|field| field.text.starts_with('-')));
        first.is_some_and(known) || second.is_some_and(known) || behind_dashes.is_some_and(known)
    }

    fn is_table(&self, name: &str) -> bool {
        wrappers::is_wrapper(name) || harmless::is_known(name) || shells::runs_code(name)
    }

    fn is_known(&self, word: &str) -> bool {
        self.names_of(word).iter().any(|name| self.is_table(name))
    }

    /// All names of a program: as it is written, without its folder, and those that the machine knows.
    fn names_of(&self, word: &str) -> Vec<String> {
        let mut names = vec![word.to_string()];
        let base = word.rsplit('/').next().unwrap_or(word).to_string();
        let mut found = self.programs.names(word);
        // The machine knows nothing of `~`, and not where the command moved to.
        if word.contains('/') && (word.starts_with('~') || self.places.has_moved()) {
            let field = Field { home: word.starts_with('~'), ..Field::literal(word) };
            found.extend(self.files(&field).iter().flat_map(|file| self.programs.names(file)));
        }
        for name in found.into_iter().chain([base]) {
            if !names.contains(&name) {
                names.push(name);
            }
        }
        names
    }

    /// A file that runs, be it as a program or as a script.
    fn runs(&mut self, file: &Field, context: &Context) {
        let files = self.files(file);
        self.ran.extend(files.into_iter().map(|file| (file, context.clone())));
    }

    /// The files that a word may name, each spelled in one way only.
    fn files(&self, field: &Field) -> Vec<String> {
        let mut files = Vec::new();
        self.places.resolve(&self.paths(std::slice::from_ref(field)), &mut files, &mut Vec::new());
        files.push(field.text.clone());
        files.iter().map(|file| places::plain(file, self.programs)).collect()
    }

    /// These fields as the paths that they name, where the command shows which these are.
    fn paths(&self, fields: &[Field]) -> Vec<Field> {
        self.variables.paths(fields, self.programs)
    }

    fn part(&mut self, fields: &[Field], names: Vec<String>, judged: Judged, context: &Context) {
        let named = if judged.knows_files {
            Vec::new()
        } else {
            let name = names.last().map(String::as_str).unwrap_or_default();
            mentions::paths(name, &self.paths(fields.get(1..).unwrap_or_default()), judged.code.as_deref(), &judged)
        };
        self.list(&judged, context);
        let mut part = Part {
            words: fields.iter().map(|field| field.text.clone()).collect(),
            names,
            text: context.text.clone(),
            span: context.span.clone(),
            // As somebody else, or elsewhere, even what only looks is a change of what can be seen.
            effect: if context.risky.is_empty() { judged.effect } else { judged.effect.at_least_unknown() },
            reads: Vec::new(),
            writes: Vec::new(),
            unresolved_paths: Vec::new(),
            hosts: judged.hosts,
            through: context.through.clone(),
            risky: context.risky.iter().cloned().chain(judged.risky).collect(),
            unresolved: fields.iter().enumerate().filter(|(_, field)| field.is_open()).map(|(at, _)| at).collect(),
            may_reach: Vec::new(),
            code: judged.code,
            own_writes: Vec::new(),
            may_open: Vec::new(),
            below: Vec::new(),
        };
        let mut ignored = Vec::new();
        let own_writes = self.paths(&judged.writes[..judged.own_writes]);
        self.places.resolve(&own_writes, &mut part.own_writes, &mut ignored);
        if part.effect != Effect::ChangesNothing {
            self.places.resolve(&named, &mut part.may_open, &mut ignored);
        }
        for Under { folder, names, hidden } in &judged.below {
            let mut folders = Vec::new();
            let all = self.paths(std::slice::from_ref(folder));
            self.places.resolve(&all, &mut folders, &mut part.unresolved_paths);
            for folder in folders {
                let below = Below { folder, names: names.clone(), hidden: *hidden };
                if !part.below.contains(&below) {
                    part.below.push(below);
                }
            }
        }
        self.places.resolve(&self.paths(&judged.reads), &mut part.reads, &mut part.unresolved_paths);
        self.places.resolve(&self.paths(&judged.writes), &mut part.writes, &mut part.unresolved_paths);
        let written: Vec<String> = judged.writes.iter().flat_map(|field| self.files(field)).collect();
        self.written.extend(written);
        let moves = std::mem::take(&mut self.moves);
        self.paths(&moves).iter().for_each(|target| self.places.go(target));
        self.reading.parts.push(part);
    }

    /// Notes below which folders the files lie that are added to the next part.
    fn list(&mut self, judged: &Judged, context: &Context) {
        let is_name = |field: &Field| field.is_added && is_whole_name(&field.text);
        if context.folders.is_empty() || !judged.reads.iter().any(is_name) {
            return;
        }
        let folders: Vec<Field> = context.folders.iter().map(|under| under.folder.clone()).collect();
        let (mut known, mut unresolved) = (Vec::new(), Vec::new());
        self.places.resolve(&self.paths(&folders), &mut known, &mut unresolved);
        let is_plain = |folder: &String| {
            let odd = |c: char| c.is_whitespace() || "'\"\\*?[".contains(c);
            !folder.contains(odd) && !folder.starts_with('~') && self.programs.has_plain_names(folder)
        };
        if unresolved.is_empty() && known.iter().all(is_plain) {
            self.listed.push((self.reading.parts.len(), known));
        }
    }

    fn unknowable(&mut self, what: UnknowableKind, text: &str, context: &Context) {
        self.note(what, text, &context.span);
    }

    fn note(&mut self, what: UnknowableKind, text: &str, span: &Range<usize>) {
        let mut found = Found::default();
        found.cannot_know(what, text, span.clone());
        self.reading.unknowable.append(&mut found.unknowable);
    }
}

/// Whether an argument that is added is a name as it is listed, without a folder of its own.
fn is_whole_name(text: &str) -> bool {
    !text.contains('/') && (text == "…" || text == "{}" || text.len() == 1)
}

/// Whether a command gives values to the variables that it names.
fn fills(simple: &Simple) -> bool {
    let program = simple.words.first().and_then(Word::literal);
    program.is_some_and(|program| ["read", "mapfile", "readarray", "printf", "getopts"].contains(&program.as_str()))
}

/// Whether a command prints names of files below a folder, and nothing else; `listed`: whether its input are such names.
fn lists_names(words: &[String], listed: bool) -> bool {
    let words: Vec<&str> = words.iter().map(String::as_str).collect();
    let has = |options: &[&str]| words.iter().any(|word| options.contains(word));
    let letter = |letters: &[char]| {
        words
            .iter()
            .any(|word| word.strip_prefix('-').is_some_and(|rest| !rest.starts_with('-') && rest.contains(letters)))
    };
    match words.as_slice() {
        ["find" | "gfind", ..] => !has(&["-exec", "-execdir", "-printf", "-ok", "-okdir"]),
        ["fd" | "fdfind", ..] => !letter(&['x', 'X']),
        ["rg", ..] => has(&["--files", "--files-with-matches", "--files-without-match"]) || letter(&['l']),
        ["grep" | "egrep" | "fgrep" | "rgrep" | "ag", ..] => {
            listed || letter(&['l', 'L']) || has(&["--files-with-matches"])
        }
        ["git", "ls-files", ..] => true,
        ["git", "diff" | "show", ..] => has(&["--name-only"]),
        ["git", "grep", ..] => letter(&['l']) || has(&["--name-only"]),
        ["head" | "tail" | "sort" | "uniq", ..] => listed,
        _ => false,
    }
}

/// Whether a text has a substitution in it, for whoever evaluates it.
fn holds_code(text: &str) -> bool {
    text.contains("$(") || text.contains('`') || text.contains("<(") || text.contains("${")
}

/// What a program does, with what its redirections do.
fn merge(mut judged: Judged, redirected: Judged) -> Judged {
    judged.effect = match (judged.effect, redirected.effect) {
        (Effect::ChangesNothing, effect) => effect,
        (effect, _) => effect,
    };
    judged.own_writes = judged.writes.len();
    judged.reads.extend(redirected.reads);
    judged.writes.extend(redirected.writes);
    judged.hosts.extend(redirected.hosts);
    judged.below.extend(redirected.below);
    judged
}
