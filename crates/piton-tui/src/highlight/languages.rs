//! The tables: how each language writes comments and strings, and its words.

/// A language that is shown in colours.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Language {
    /// Rust.
    Rust,
    /// Python.
    Python,
    /// JavaScript and TypeScript.
    Script,
    /// Go.
    Go,
    /// C and C++.
    C,
    /// Java, Kotlin, C#, Swift: their words together.
    Java,
    /// Shells, and what is written alike: Dockerfiles, Makefiles.
    Shell,
    /// JSON, with comments.
    Json,
    /// TOML and INI files.
    Toml,
    /// YAML.
    Yaml,
    /// HTML and XML.
    Html,
    /// CSS.
    Css,
    /// SQL.
    Sql,
    /// Differences of two texts.
    Diff,
}

/// The language of a file by its name, or of the word behind a code fence.
pub fn language(path_or_fence: &str) -> Option<Language> {
    let path = path_or_fence.trim();
    let name = path.rsplit(['/', '\\']).next()?;
    let word = name.rsplit('.').next().filter(|word| word.len() <= 16)?.to_ascii_lowercase();
    // A folder may hold a file `c`, which is a program more likely than C.
    if name.len() < path.len() && !name.contains('.') && !matches!(word.as_str(), "dockerfile" | "makefile") {
        return None;
    }
    Some(match word.as_str() {
        "rs" | "rust" => Language::Rust,
        "py" | "pyi" | "python" | "python3" | "py3" | "starlark" | "bzl" => Language::Python,
        "js" | "jsx" | "mjs" | "cjs" | "ts" | "tsx" | "mts" | "cts" | "javascript" | "typescript" | "node" => {
            Language::Script
        }
        "go" | "golang" => Language::Go,
        "c" | "h" | "cc" | "cpp" | "cxx" | "hh" | "hpp" | "hxx" | "c++" | "cuda" | "cu" | "m" | "mm" | "ino" => {
            Language::C
        }
        "java" | "kt" | "kts" | "kotlin" | "cs" | "csharp" | "c#" | "swift" | "scala" | "groovy" | "gradle"
        | "dart" => Language::Java,
        "sh" | "bash" | "zsh" | "fish" | "ksh" | "shell" | "bashrc" | "zshrc" | "profile" | "dockerfile"
        | "makefile" | "mk" | "env" => Language::Shell,
        "json" | "jsonc" | "json5" | "jsonl" | "ndjson" | "geojson" => Language::Json,
        "toml" | "lock" | "ini" | "cfg" | "conf" | "gitconfig" | "properties" => Language::Toml,
        "yaml" | "yml" => Language::Yaml,
        "html" | "htm" | "xml" | "svg" | "xhtml" | "vue" | "svelte" | "plist" => Language::Html,
        "css" | "scss" | "less" => Language::Css,
        "sql" | "sqlite" | "mysql" | "postgres" | "postgresql" | "psql" | "plsql" => Language::Sql,
        "diff" | "patch" => Language::Diff,
        _ => return None,
    })
}

/// How a language is written. Words are listed with blanks between them.
#[derive(Debug)]
pub(super) struct Rules {
    pub line_comments: &'static [&'static str],
    /// How comments begin and end that may go on in the next line.
    pub comments: &'static [(&'static str, &'static str)],
    /// Longer marks first.
    pub strings: &'static [Quote],
    keywords: &'static str,
    constants: &'static str,
    pub keys: Keys,
    /// Raw strings, lifetimes, comments in comments.
    pub is_rust: bool,
    /// A string goes on in the next line behind a backslash.
    pub goes_on: bool,
    /// A word behind `-` is no keyword.
    pub has_options: bool,
    /// Words are written in any case.
    ignores_case: bool,
}

/// A string: the mark at both its ends.
#[derive(Debug)]
pub(super) struct Quote {
    pub mark: &'static str,
    /// Whether a backslash takes the character behind it along.
    pub escapes: bool,
    /// Whether it may go on in the next line.
    pub goes_on: bool,
}

/// Which names stand out as keys.
#[derive(Debug, PartialEq)]
pub(super) enum Keys {
    None,
    /// Strings before a colon.
    Strings,
    /// What a line begins with before this mark.
    Before(char),
}

impl Rules {
    pub(super) fn is_keyword(&self, word: &str) -> bool {
        self.has(self.keywords, word)
    }

    pub(super) fn is_constant(&self, word: &str) -> bool {
        self.has(self.constants, word)
    }

    fn has(&self, words: &str, word: &str) -> bool {
        let is_word = |listed: &str| if self.ignores_case { listed.eq_ignore_ascii_case(word) } else { listed == word };
        words.split(' ').any(is_word)
    }
}

const fn quote(mark: &'static str, escapes: bool, goes_on: bool) -> Quote {
    Quote { mark, escapes, goes_on }
}

const PLAIN: Rules = Rules {
    line_comments: &[],
    comments: &[],
    strings: &[],
    keywords: "",

    constants: "",

    keys: Keys::None,
    is_rust: false,
    goes_on: false,
    has_options: false,
    ignores_case: false,
};

const SLASHES: Rules = Rules { line_comments: &["//"], comments: &[("/*", "*/")], ..PLAIN };

pub(super) fn rules(language: Language) -> &'static Rules {
    match language {
        Language::Rust => &RUST,
        Language::Python => &PYTHON,
        Language::Script => &SCRIPT,
        Language::Go => &GO,
        Language::C => &C,
        Language::Java => &JAVA,
        Language::Shell => &SHELL,
        Language::Json => &JSON,
        Language::Toml => &TOML,
        Language::Yaml => &YAML,
        Language::Css => &CSS,
        Language::Sql => &SQL,
        Language::Html | Language::Diff => &PLAIN,
    }
}

static RUST: Rules = Rules {
    strings: &[quote("\"", true, true)],
    keywords: "\
        Self as async await break const continue crate dyn else enum extern fn for if impl in let loop \
        macro_rules match mod move mut pub ref return self static struct super trait type unsafe use where \
        while yield",
    constants: "Err None Ok Some false true",
    is_rust: true,
    ..SLASHES
};

static PYTHON: Rules = Rules {
    line_comments: &["#"],
    strings: &[
        quote("\"\"\"", true, true),
        quote("'''", true, true),
        quote("\"", true, false),
        quote("'", true, false),
    ],
    keywords: "\
        and as assert async await break case class continue def del elif else except finally for from global \
        if import in is lambda match nonlocal not or pass raise return try while with yield",
    constants: "False None True cls self",
    goes_on: true,
    ..PLAIN
};

static SCRIPT: Rules = Rules {
    strings: &[quote("`", true, true), quote("\"", true, false), quote("'", true, false)],
    keywords: "\
        abstract as async await break case catch class const continue debugger declare default delete do \
        else enum export extends finally for from function get if implements import in instanceof interface \
        keyof let namespace new of private protected public readonly return satisfies set static super \
        switch this throw try type typeof var void while with yield",
    constants: "Infinity NaN false null true undefined",
    ..SLASHES
};

static GO: Rules = Rules {
    strings: &[quote("`", false, true), quote("\"", true, false), quote("'", true, false)],
    keywords: "\
        break case chan const continue default defer else fallthrough for func go goto if import interface \
        map package range return select struct switch type var",
    constants: "false iota nil true",
    ..SLASHES
};

static C: Rules = Rules {
    strings: &[quote("\"", true, false), quote("'", true, false)],
    keywords: "\
        alignas auto bool break case catch char class concept const constexpr continue decltype default \
        define delete do double elif else endif enum explicit export extern float for friend goto if ifdef \
        ifndef include inline int long mutable namespace new noexcept operator override pragma private \
        protected public register requires restrict return short signed sizeof static struct switch template \
        this throw try typedef typename undef union unsigned using virtual void volatile while",
    constants: "NULL false nullptr true",
    goes_on: true,
    ..SLASHES
};

static JAVA: Rules = Rules {
    strings: &[quote("\"\"\"", true, true), quote("\"", true, false), quote("'", true, false)],
    keywords: "\
        abstract as assert async await boolean break byte case catch char class const continue data default \
        do double else enum extends final finally float for foreach fun func guard if implements import in \
        init instanceof int interface internal is let long namespace native new object out override package \
        private protected public record return sealed short static string struct super suspend switch \
        synchronized this throw throws transient try typealias using val var virtual void volatile when \
        where while yield",
    constants: "false nil null true",
    ..SLASHES
};

static SHELL: Rules = Rules {
    line_comments: &["#"],
    strings: &[quote("\"", true, true), quote("'", false, true)],
    keywords: "\
        ADD ARG CMD COPY ENTRYPOINT ENV EXPOSE FROM RUN USER VOLUME WORKDIR break case continue do done elif \
        else esac exec exit export fi for function if in local readonly return select set shift source then \
        trap unset until while",
    constants: "false true",
    has_options: true,
    ..PLAIN
};

static JSON: Rules =
    Rules { strings: &[quote("\"", true, false)], constants: "false null true", keys: Keys::Strings, ..SLASHES };

static TOML: Rules = Rules {
    line_comments: &["#", ";"],
    strings: &[
        quote("\"\"\"", true, true),
        quote("'''", false, true),
        quote("\"", true, false),
        quote("'", false, false),
    ],
    constants: "false inf nan true",
    keys: Keys::Before('='),
    ..PLAIN
};

static YAML: Rules = Rules {
    line_comments: &["#"],
    strings: &[quote("\"", true, false)],
    constants: "false no null true yes",
    keys: Keys::Before(':'),
    ..PLAIN
};

static CSS: Rules = Rules {
    strings: &[quote("\"", true, false), quote("'", true, false)],
    keywords: "and from import important media not to var",
    keys: Keys::Before(':'),
    comments: &[("/*", "*/")],
    has_options: true,
    ..PLAIN
};

static SQL: Rules = Rules {
    line_comments: &["--"],
    comments: &[("/*", "*/")],
    strings: &[quote("'", false, true)],
    keywords: "\
        add all alter and as asc begin between by cascade case check column commit constraint create cross \
        default delete desc distinct drop else end exists foreign from full function group having if in \
        index inner insert intersect into is join key left like limit not offset on or order outer over \
        partition primary references returning right rollback select set table then trigger union unique \
        update using values view when where with",
    constants: "false null true",
    ignores_case: true,
    ..PLAIN
};
