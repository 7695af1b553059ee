//! What is known of systems, toolchains and of files by which code is run later.

use std::path::{Path, PathBuf};

/// Where toolchains and caches lie in a home, and what of the system is read, whether or not they are there.
pub fn readable(home: &Path) -> Vec<PathBuf> {
    let of_home = TOOLCHAINS.iter().chain(CACHES).map(|name| home.join(name));
    SYSTEM.iter().map(PathBuf::from).chain(of_home).collect()
}

/// Where keys and histories lie in a home, and what of the system is for the administrator alone, whether or not they are there.
pub fn secret(home: &Path) -> Vec<PathBuf> {
    let of_home = CREDENTIALS.iter().map(|name| home.join(name));
    SYSTEM_SECRETS.iter().map(PathBuf::from).chain(of_home).collect()
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
    ".cargo/config.toml",
    ".cargo/config",
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
    ".ivy2",
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

/// In a home: what holds keys. Only matters where a workspace holds the home itself; otherwise there is none of the home.
pub(crate) const CREDENTIALS: &[&str] = &[
    ".ssh",
    ".gnupg",
    ".aws",
    ".azure",
    ".config/gcloud",
    ".config/gh",
    ".config/hub",
    ".config/glab-cli",
    ".docker",
    ".kube",
    ".netrc",
    ".npmrc",
    ".pypirc",
    ".git-credentials",
    ".cargo/credentials",
    ".cargo/credentials.toml",
    ".gem/credentials",
    ".m2/settings.xml",
    ".gradle/gradle.properties",
    ".terraform.d",
    ".vault-token",
    ".password-store",
    ".local/share/keyrings",
    ".mozilla",
    ".config/google-chrome",
    ".config/chromium",
    ".config/BraveSoftware",
    ".thunderbird",
    ".bash_history",
    ".zsh_history",
    ".python_history",
    ".psql_history",
    ".pgpass",
    ".my.cnf",
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
