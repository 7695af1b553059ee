//! The first minute without a model: a key, a local server, or the demo.

use super::Chat;
use crate::cli::Cli;
use crate::commands::demo;
use crate::out::print;
use crate::run::order::Place;
use clap::Parser;
use piton_core::client::Prompt;
use piton_engine::assemble::AssembleError;
use piton_tui::face::Input;
use piton_tui::picker::{Item, Purpose};

/// Providers whose key is asked for, with what they call it.
const PROVIDERS: [(&str, &str); 5] = [
    ("anthropic", "a key from console.anthropic.com"),
    ("openai", "a key from platform.openai.com"),
    ("openrouter", "one key for many models, openrouter.ai"),
    ("gemini", "a key from aistudio.google.com"),
    ("deepseek", "a key from platform.deepseek.com"),
];

impl Chat<'_> {
    /// Where a person has to say which model to ask, offers what there is. Answers whether that is so.
    pub(super) fn offer_models(&self, error: &AssembleError) -> bool {
        match error {
            AssembleError::NoModel => self.offer_setup(),
            AssembleError::WhichModel { server, models } => {
                let item = |model: &String| Item { label: model.clone(), detail: String::new(), value: model.clone() };
                let title = format!("Which model of {server}?");
                let items = models.iter().map(item).collect();
                self.terminal.tell(Input::Choose { purpose: Purpose::Model, title, items });
            }
            _ => return false,
        }
        true
    }

    /// Offers the ways to a model.
    fn offer_setup(&self) {
        let mut items = vec![Item {
            label: "demo".to_owned(),
            detail: "no key needed: watch it fix a failing test in a sample project".to_owned(),
            value: "demo".to_owned(),
        }];
        items.extend(PROVIDERS.iter().map(|(name, detail)| Item {
            label: (*name).to_owned(),
            detail: (*detail).to_owned(),
            value: (*name).to_owned(),
        }));
        items.push(Item {
            label: "look again".to_owned(),
            detail: "after starting Ollama, llama.cpp or LM Studio here".to_owned(),
            value: "again".to_owned(),
        });
        let title = "No model can be asked yet. What would you like?".to_owned();
        self.terminal.tell(Input::Choose { purpose: Purpose::Setup, title, items });
    }

    pub(super) async fn set_up(&mut self, choice: &str) {
        match choice {
            "demo" => match demo::prepared(self.around) {
                Ok((folder, settings, task)) => {
                    self.note(format!("a sample project with a failing test is in {}", folder.display()));
                    self.note("the model is a recording; tools, tests and journal are real");
                    self.facts.folder = folder.display().to_string();
                    self.facts.workspace.clone_from(&folder);
                    self.place = Place::New(folder);
                    self.know(&settings);
                    self.settings = Some(settings);
                    self.say(Prompt::new(task)).await;
                }
                Err(error) => self.fail(&error),
            },
            "again" => drop(self.assemble().await),
            provider => {
                self.ask_for_key(provider).await;
                self.assemble().await;
            }
        }
    }

    /// Asks for a key at the plain terminal, without an echo, and keeps it.
    async fn ask_for_key(&mut self, provider: &str) {
        let Ok(login) = Cli::try_parse_from(["piton", "auth", "login", provider]) else { return };
        let lent = self.terminal.lend();
        let printing = print::Printing::new();
        Box::pin(crate::obey(login.command, self.around)).await;
        drop(printing);
        drop(lent);
        // Ctrl-C meant the key.
        self.skips_interrupt = true;
    }
}
