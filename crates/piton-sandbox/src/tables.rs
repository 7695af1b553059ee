//! What is known of systems, toolchains and of files by which code is run later.

use std::path::{Path, PathBuf};

/// Where toolchains and caches lie in a home, and what of the system is read, whether or not they are there.
pub fn readable(home: &Path) -> Vec<PathBuf> {
    let of_home = TOOLCHAINS.iter().chain(CACHES).map(|name| home.join(name));
    SYSTEM.iter().map(PathBuf::from).chain(of_home).collect()
}

/// Where keys and histories lie in a home, and what of the system is for the administrator alone, whether or not they are there.
pub fn secret(home: &Path) -> Vec<PathBuf> {
    SYSTEM_SECRETS.iter().map(PathBuf::from).chain(credentials(home)).collect()
}

/// The paths that [`CREDENTIALS`] means in a home. Where a name has a `*`, only those that are there.
pub(crate) fn credentials(home: &Path) -> Vec<PathBuf> {
    CREDENTIALS.iter().flat_map(|name| matching(home, name)).collect()
}

fn matching(folder: &Path, name: &str) -> Vec<PathBuf> {
    let Some((above, below)) = name.split_once("/*/") else { return vec![folder.join(name)] };
    let entries = std::fs::read_dir(folder.join(above)).into_iter().flatten().flatten();
    entries.flat_map(|entry| matching(&entry.path(), below)).collect()
}

/// The home that a toolchain or a cache lies in, which need not be the user's.
pub(crate) fn home_of(path: &Path) -> Option<&Path> {
    let is_known = |name: &&&str| path.ends_with(name);
    let name = TOOLCHAINS.iter().chain(CACHES).find(is_known)?;
    path.ancestors().nth(Path::new(name).components().count())
}

/// Folders of the system that commands read. A link stays the link that it is.
pub(crate) const SYSTEM: &[&str] = &[
    "/usr",
    "/bin",
    "/sbin",
    "/lib",
    "/lib32",
    "/lib64",
    "/libx32",
    "/etc",
    "/opt",
    "/nix/store",
    "/snap",
    "/var/lib/dpkg",
    "/var/lib/rpm",
    "/var/lib/pacman",
    "/var/cache/fontconfig",
    "/sys/devices/system",
    "/sys/fs/cgroup",
    "/run/current-system",
];

/// What of them is for the administrator alone: a command that runs as root does not see it either.
pub(crate) const SYSTEM_SECRETS: &[&str] = &[
    "/etc/shadow",
    "/etc/shadow-",
    "/etc/gshadow",
    "/etc/gshadow-",
    "/etc/sudoers",
    "/etc/sudoers.d",
    "/etc/ssl/private",
    "/etc/krb5.keytab",
    "/etc/ssh/ssh_host_rsa_key",
    "/etc/ssh/ssh_host_ecdsa_key",
    "/etc/ssh/ssh_host_ed25519_key",
    "/etc/ssh/ssh_host_dsa_key",
    "/etc/wireguard",
    "/etc/NetworkManager/system-connections",
];

/// Below `/proc`: what configures the machine. Root could write it.
pub(crate) const PROC_READ_ONLY: &[&str] = &[
    "/proc/sys",
    "/proc/sysrq-trigger",
    "/proc/irq",
    "/proc/bus",
    "/proc/fs",
    "/proc/acpi",
    "/proc/scsi",
    "/proc/tty",
];

/// Devices that every program may use.
pub(crate) const DEVICES: &[&str] = &["null", "zero", "full", "random", "urandom", "tty"];

/// Toolchains in a home: read, never changed.
pub(crate) const TOOLCHAINS: &[&str] = &[
    ".rustup",
    ".cargo/bin",
    ".cargo/env",
    ".nvm",
    ".volta",
    ".fnm",
    ".local/share/fnm",
    ".asdf",
    ".local/share/mise",
    ".pyenv",
    ".rbenv",
    ".sdkman",
    ".jenv",
    ".goenv",
    ".go",
    "go/bin",
    "sdk",
    ".deno/bin",
    ".bun/bin",
    ".local/bin",
    ".local/lib",
    ".local/share/uv/python",
    ".local/share/uv/tools",
    ".local/share/pnpm",
    ".local/pipx",
    ".local/share/pipx",
    ".dotnet",
    ".ghcup",
    ".cabal/bin",
    ".stack/programs",
    ".opam",
    ".juliaup",
    ".julia",
    ".nix-profile",
    ".linuxbrew",
    "miniconda3",
    "anaconda3",
    ".elan",
    ".zvm",
    ".swiftly",
];

/// Caches in a home: read through, written privately, so that one project's build cannot poison another's.
pub(crate) const CACHES: &[&str] = &[
    ".cargo/registry",
    ".cargo/git",
    ".npm",
    ".cache",
    "go/pkg",
    ".m2/repository",
    ".gradle/caches",
    ".gradle/wrapper",
    ".ivy2/cache",
    ".ivy2/local",
    ".nuget/packages",
    ".pub-cache",
    ".bundle/cache",
    ".gem",
    ".local/share/virtualenv",
    ".yarn/berry/cache",
    ".cabal/packages",
    ".stack/pantry",
    ".hex",
    ".mix",
    ".cpan",
    ".composer/cache",
];

/// In a home: what holds keys, and what may hold a token in a toolchain or a cache that is shown. `*` stands for one name. Most of it is not
/// shown anyway, and matters only where a workspace holds the home itself.
pub(crate) const CREDENTIALS: &[&str] = &[
    // Of people and their machines.
    ".ssh",
    ".gnupg",
    ".netrc",
    ".git-credentials",
    ".config/git/credentials",
    ".cache/git/credential",
    ".password-store",
    ".local/share/keyrings",
    ".pgpass",
    ".my.cnf",
    // Of clouds and forges.
    ".aws",
    ".azure",
    ".config/gcloud",
    ".config/gh",
    ".config/hub",
    ".config/glab-cli",
    ".docker",
    ".config/containers/auth.json",
    ".kube",
    ".terraform.d",
    ".terraformrc",
    ".vault-token",
    ".config/helm/registry",
    ".config/netlify",
    ".config/doctl",
    ".fly",
    // Of package managers.
    ".cargo/credentials",
    ".cargo/credentials.toml",
    ".cargo/config",
    ".cargo/config.toml",
    ".npmrc",
    ".yarnrc",
    ".yarnrc.yml",
    ".config/pnpm",
    ".config/configstore",
    ".bunfig.toml",
    ".nvm/versions/node/*/etc/npmrc",
    ".volta/tools/image/node/*/etc/npmrc",
    ".fnm/node-versions/*/installation/etc/npmrc",
    ".local/share/fnm/node-versions/*/installation/etc/npmrc",
    ".asdf/installs/nodejs/*/etc/npmrc",
    ".asdf/installs/nodejs/*/.npm/etc/npmrc",
    ".local/share/mise/installs/node/*/etc/npmrc",
    ".pypirc",
    ".pip",
    ".config/pip",
    ".config/pypoetry",
    ".config/uv",
    ".local/share/uv/credentials",
    ".local/share/uv/tools/*/pip.conf",
    ".local/pipx/venvs/*/pip.conf",
    ".local/share/pipx/venvs/*/pip.conf",
    ".local/share/virtualenv/*/pip.conf",
    ".pyenv/versions/*/pip.conf",
    ".condarc",
    ".conda",
    ".continuum",
    "miniconda3/.condarc",
    "miniconda3/condarc",
    "miniconda3/condarc.d",
    "miniconda3/pip.conf",
    "anaconda3/.condarc",
    "anaconda3/condarc",
    "anaconda3/condarc.d",
    "anaconda3/pip.conf",
    ".gem/credentials",
    ".gem/gem-private_key.pem",
    ".gemrc",
    ".bundle/config",
    ".rbenv/versions/*/etc/gemrc",
    ".m2/settings.xml",
    ".m2/settings-security.xml",
    ".sdkman/candidates/maven/*/conf/settings.xml",
    ".asdf/installs/maven/*/conf/settings.xml",
    ".local/share/mise/installs/maven/*/conf/settings.xml",
    ".gradle/gradle.properties",
    ".gradle/init.d",
    ".sdkman/candidates/gradle/*/gradle.properties",
    ".sdkman/candidates/gradle/*/init.d",
    ".sbt",
    ".ivy2/.credentials",
    ".config/coursier",
    ".nuget/NuGet",
    ".config/NuGet",
    ".dotnet/corefx/cryptography",
    ".composer/auth.json",
    ".config/composer",
    ".pub-cache/credentials.json",
    ".config/dart",
    ".hex/hex.config",
    ".config/rebar3",
    ".julia/servers",
    ".stack/config.yaml",
    ".stack/upload",
    ".cabal/config",
    ".config/cabal",
    ".opam/repo/repos-config",
    ".luarocks",
    ".cpan/CPAN/MyConfig.pm",
    ".conan",
    ".conan2",
    ".deno/auth",
    ".swiftpm",
    ".config/go/env",
    ".cache/huggingface/token",
    ".cache/huggingface/stored_tokens",
    // Of browsers and mail.
    ".mozilla",
    ".config/google-chrome",
    ".config/chromium",
    ".config/BraveSoftware",
    ".thunderbird",
    ".cache/mozilla",
    ".cache/google-chrome",
    ".cache/chromium",
    ".cache/BraveSoftware",
    ".cache/thunderbird",
    // Histories.
    ".bash_history",
    ".zsh_history",
    ".python_history",
    ".psql_history",
    ".node_repl_history",
    ".julia/logs",
    // Of agents.
    ".claude",
    ".claude.json",
    ".codex",
    ".gemini",
    ".config/goose",
    ".local/share/opencode",
    ".config/opencode",
    ".piton",
    ".config/piton",
    ".local/share/piton",
];

/// At any depth of a workspace: what another program runs or believes when a person opens the folder, whatever it holds.
pub(crate) const PROTECTED: &[&str] = &[
    ".piton",
    ".claude",
    ".codex",
    ".gemini",
    ".cursor",
    ".opencode",
    ".vscode",
    ".idea",
    ".zed",
    ".fleet",
    ".devcontainer",
    ".envrc",
    ".mise.toml",
    "mise.toml",
    ".mise",
    ".mcp.json",
    ".cursorrules",
    ".husky/_",
    ".direnv",
    ".kiro",
    ".windsurf",
    ".roo",
    ".qwen",
    ".aider.conf.yml",
    ".exrc",
    ".nvim.lua",
    ".dir-locals.el",
];

/// Names in a workspace that are protected, in small letters: at any depth, or, with a slash in front, at the top.
pub fn protected() -> impl Iterator<Item = String> {
    let at_top = PROTECTED_AT_TOP.iter().map(|name| format!("/{name}"));
    PROTECTED.iter().chain(&[".git"]).map(|name| (*name).to_owned()).chain(at_top)
}

/// At the top of a workspace, which may be a home: below it these are files like others.
pub(crate) const PROTECTED_AT_TOP: &[&str] =
    &[".bashrc", ".bash_profile", ".profile", ".zshrc", ".zshenv", ".zprofile", ".gitconfig", ".ssh"];

/// In a git folder: by what a later git writes or runs something elsewhere.
pub(crate) const GIT: &[&str] =
    &["config", "config.worktree", "hooks", "info/attributes", "commondir", "gitdir", "remotes", "branches"];

/// Of git's settings in a home: whose name a commit has, and how files and branches are written. None names a program, a file or
/// a host. In small letters; those of a section without a subsection.
pub(crate) const CARRIED_GIT: &[&str] = &[
    "user.name",
    "user.email",
    "author.name",
    "author.email",
    "committer.name",
    "committer.email",
    "init.defaultbranch",
    "core.autocrlf",
    "core.eol",
    "core.safecrlf",
    "core.quotepath",
    "core.commentchar",
    "i18n.commitencoding",
    "commit.cleanup",
    "pull.rebase",
    "pull.ff",
    "push.default",
    "push.autosetupremote",
    "fetch.prune",
    "merge.ff",
    "merge.conflictstyle",
    "rebase.autosquash",
    "rebase.autostash",
    "rerere.enabled",
    "diff.algorithm",
    "diff.renames",
    "branch.sort",
    "tag.sort",
    "log.date",
];

/// Of npm's settings in a home, also of a scope: an address each.
pub(crate) const CARRIED_NPM: &[&str] = &["registry"];

/// Of pip's settings in a home: addresses.
pub(crate) const CARRIED_PIP: &[&str] = &["index-url", "extra-index-url"];

/// Of cargo's settings in a home: how something is built, and where packages come from. Of a registry and a source only where it is.
pub(crate) const CARRIED_CARGO: &[&str] = &[
    "alias",
    "build",
    "cargo-new",
    "future-incompat-report",
    "net",
    "patch",
    "paths",
    "profile",
    "registries",
    "registry",
    "resolver",
    "source",
    "target",
    "unstable",
];

/// What of a table of those is carried, where it is not all.
pub(crate) const CARRIED_CARGO_KEYS: &[(&str, &[&str])] = &[
    ("net", &["git-fetch-with-cli", "offline", "retry"]),
    ("registries", &["index", "protocol"]),
    ("registry", &["default"]),
    ("source", &["branch", "directory", "git", "local-registry", "registry", "replace-with", "rev", "tag"]),
];
