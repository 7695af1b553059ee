//! AWS and Google Cloud settings found on the machine: credentials, region, project, and the addresses derived from them.

use super::environment;
use super::keys::{self, KEY_COMMAND_LIMIT};
use super::machine::Machine;
use super::trouble::{Context, Trouble, ensure};
use crate::config::Config;
use piton_models::credentials::{AwsKeys, Cloud, Credentials, GoogleAccount};
use piton_models::pass::{Pass, Renewal};
use piton_models::protocol::WireProtocol;
use piton_models::provider::{Provider, ProviderSpec};
use piton_tools::regular;
use std::collections::BTreeMap;
use std::path::PathBuf;

/// Completes the spec of a provider that lives in a cloud: credentials where there is no key, and the address.
pub(super) fn complete(spec: &mut ProviderSpec, provider: &Provider, machine: &Machine) -> Result<(), Trouble> {
    match provider.cloud {
        None => {}
        Some(Cloud::Aws) => {
            let aws = Aws::read(machine);
            if spec.key.is_none() {
                spec.credentials = aws.credentials(machine)?.map(Credentials::Aws);
                spec.renewal = spec.credentials.as_ref().map(|_| renewal(machine));
            }
            let end = if provider.protocol == WireProtocol::Anthropic { "anthropic" } else { "openai/v1" };
            let address = |region: String| format!("https://bedrock-mantle.{region}.api.aws/{end}");
            spec.base_url = spec.base_url.take().or_else(|| aws.region(machine).map(address));
        }
        Some(Cloud::Google) => {
            let account = google_account(machine)?;
            let project = machine.var("GOOGLE_CLOUD_PROJECT").or(account.as_ref().and_then(GoogleAccount::project));
            let location = machine.var("GOOGLE_CLOUD_LOCATION").unwrap_or("global");
            let host = if location == "global" { String::new() } else { format!("{location}-") };
            let address = |project: &str| {
                format!(
                    "https://{host}aiplatform.googleapis.com/v1/projects/{project}/locations/{location}/endpoints/openapi"
                )
            };
            spec.base_url = spec.base_url.take().or_else(|| project.map(address));
            if spec.key.is_none() {
                spec.credentials = account.map(Credentials::Google);
            }
        }
    }
    Ok(())
}

/// Temporary keys end: the files are read again, and a process is run again.
fn renewal(machine: &Machine) -> Renewal {
    let machine = machine.clone();
    Renewal::new(move || {
        let keys = Aws::read(&machine).credentials(&machine).ok()??;
        Some(Pass { key: None, credentials: Some(Credentials::Aws(keys)) })
    })
}

/// The files of AWS's tools, section by section.
struct Aws {
    profile: String,
    was_named: bool,
    sections: BTreeMap<String, BTreeMap<String, String>>,
}

impl Aws {
    fn read(machine: &Machine) -> Self {
        let mut sections = BTreeMap::new();
        for (variable, name) in [("AWS_CONFIG_FILE", "config"), ("AWS_SHARED_CREDENTIALS_FILE", "credentials")] {
            let usual = machine.var("HOME").map(|home| PathBuf::from(home).join(".aws").join(name));
            let path = machine.var(variable).map(PathBuf::from).or(usual);
            let text = path.and_then(|path| regular::text(&path, regular::SETTINGS_BYTES).ok()).unwrap_or_default();
            read_sections(&text, &mut sections);
        }
        let named = machine.var("AWS_PROFILE");
        Self { profile: named.unwrap_or("default").to_owned(), was_named: named.is_some(), sections }
    }

    fn value(&self, key: &str) -> Option<&str> {
        self.sections.get(&self.profile)?.get(key).map(String::as_str)
    }

    fn region(&self, machine: &Machine) -> Option<String> {
        let said = machine.var("AWS_REGION").or(machine.var("AWS_DEFAULT_REGION"));
        said.or(self.value("region")).map(str::to_owned)
    }

    /// From the environment, else from the profile: keys that stand there, or a program that prints some.
    fn credentials(&self, machine: &Machine) -> Result<Option<AwsKeys>, Trouble> {
        let region = self.region(machine);
        let keys = |get: &dyn Fn(&str) -> Option<String>| {
            Some(AwsKeys {
                access_key_id: get("aws_access_key_id")?,
                secret_access_key: get("aws_secret_access_key")?,
                session_token: get("aws_session_token"),
                region: String::new(),
            })
        };
        let of_environment = keys(&|name| machine.var(&name.to_uppercase()).map(str::to_owned));
        let of_profile = || keys(&|name| self.value(name).map(str::to_owned));
        let found = match of_environment.or_else(of_profile) {
            Some(keys) => Some(keys),
            None => self.value("credential_process").map(|command| printed_keys(command, machine)).transpose()?,
        };
        let Some(keys) = found else {
            ensure(!self.was_named, || {
                format!(
                    "the profile {0} of AWS has no keys and no credential_process. After a login by SSO: \
                     eval \"$(aws configure export-credentials --profile {0} --format env)\"",
                    self.profile
                )
            })?;
            return Ok(None);
        };
        let region = region.context("AWS has keys here but no region: set AWS_REGION, for example to us-east-1")?;
        Ok(Some(AwsKeys { region, ..keys }))
    }
}

/// Reads `[default]`, `[profile work]` and what is below them.
fn read_sections(text: &str, sections: &mut BTreeMap<String, BTreeMap<String, String>>) {
    let mut name = String::new();
    for line in text.lines().map(str::trim).filter(|line| !line.starts_with(['#', ';'])) {
        if let Some(header) = line.strip_prefix('[').and_then(|line| line.split(']').next()) {
            header.trim_start_matches("profile ").trim().clone_into(&mut name);
        } else if let Some((key, value)) = line.split_once('=') {
            let section = sections.entry(name.clone()).or_default();
            section.insert(key.trim().to_lowercase(), value.trim().to_owned());
        }
    }
}

/// The keys that a `credential_process` prints.
fn printed_keys(command: &str, machine: &Machine) -> Result<AwsKeys, Trouble> {
    let output = keys::printed_by(command, environment::for_own_commands(&machine.vars, &Config::default()));
    let output = output.context("cannot run the credential_process of AWS")?.with_context(|| {
        let seconds = KEY_COMMAND_LIMIT.as_secs();
        format!("the credential_process of AWS did not end within {seconds} s, and was stopped")
    })?;
    ensure(output.status.success(), || format!("the credential_process of AWS failed ({})", output.status))?;
    let printed: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap_or_default();
    let member = |key: &str| printed[key].as_str().map(str::to_owned);
    let (Some(access_key_id), Some(secret_access_key)) = (member("AccessKeyId"), member("SecretAccessKey")) else {
        return Err(Trouble::new("the credential_process of AWS printed no keys"));
    };
    Ok(AwsKeys { access_key_id, secret_access_key, session_token: member("SessionToken"), region: String::new() })
}

/// The account that Google's tools would use: the file that is named, else the one that `gcloud` wrote.
fn google_account(machine: &Machine) -> Result<Option<GoogleAccount>, Trouble> {
    let named = machine.var("GOOGLE_APPLICATION_CREDENTIALS").map(PathBuf::from);
    let home = machine.var("HOME").map(|home| PathBuf::from(home).join(".config/gcloud"));
    let usual = machine.var("CLOUDSDK_CONFIG").map(PathBuf::from).or(home);
    let usual = usual.map(|dir| dir.join("application_default_credentials.json")).filter(|path| path.exists());
    let Some(path) = named.or(usual) else { return Ok(None) };
    let text =
        regular::text(&path, regular::SETTINGS_BYTES).with_context(|| format!("cannot read {}", path.display()))?;
    let account = GoogleAccount::parse(&text);
    let account = account.with_context(|| {
        format!("{} holds neither a service account nor a login of gcloud; set VERTEX_ACCESS_TOKEN", path.display())
    })?;
    Ok(Some(account))
}

/// Where the credentials of a cloud were found, by name.
pub fn place(provider: &Provider, machine: &Machine) -> Option<String> {
    let named = |name: &str| machine.var(name).map(|_| name.to_owned());
    match provider.cloud? {
        Cloud::Aws => named("AWS_ACCESS_KEY_ID").or_else(|| {
            let aws = Aws::read(machine);
            let has_keys = aws.value("aws_access_key_id").or(aws.value("credential_process")).is_some();
            has_keys.then(|| format!("the profile {} of AWS", aws.profile))
        }),
        Cloud::Google => named("GOOGLE_APPLICATION_CREDENTIALS").or_else(|| {
            let account = google_account(machine).ok().flatten();
            account.map(|_| "the login of gcloud".to_owned())
        }),
    }
}
