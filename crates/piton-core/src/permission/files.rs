//! Files of a workspace that Piton's own tools change only after a question: those of a CI service, which other machines run, and lock
//! files, which package managers write. Commands may write them.

/// Where CI services read what they run, in small letters.
const CI: &[&str] = &[
    ".github/workflows",
    ".github/actions",
    ".gitea/workflows",
    ".forgejo/workflows",
    ".gitlab-ci.yml",
    ".circleci",
    ".travis.yml",
    "azure-pipelines.yml",
    ".azure-pipelines",
    "bitbucket-pipelines.yml",
    "jenkinsfile",
    ".buildkite",
    ".drone.yml",
    ".woodpecker",
    ".woodpecker.yml",
    ".woodpecker.yaml",
    "appveyor.yml",
    ".appveyor.yml",
    ".teamcity",
];

/// Names of lock files, in small letters.
const LOCKS: &[&str] = &[
    "cargo.lock",
    "package-lock.json",
    "npm-shrinkwrap.json",
    "yarn.lock",
    "pnpm-lock.yaml",
    "bun.lock",
    "bun.lockb",
    "deno.lock",
    "poetry.lock",
    "pipfile.lock",
    "uv.lock",
    "pdm.lock",
    "gemfile.lock",
    "composer.lock",
    "go.sum",
    "mix.lock",
    "pubspec.lock",
    "podfile.lock",
    "package.resolved",
    "packages.lock.json",
    "gradle.lockfile",
    "flake.lock",
];

/// Whether a CI service runs what is at a path, by its place in the workspace.
pub(super) fn is_of_ci(below: &str) -> bool {
    let below = format!("/{}/", below.to_lowercase());
    CI.iter().any(|name| below.contains(&format!("/{name}/")))
}

/// Whether a path is that of a lock file.
pub(super) fn is_lock(path: &str) -> bool {
    let name = path.rsplit('/').next().unwrap_or_default().to_lowercase();
    LOCKS.contains(&name.as_str())
}
