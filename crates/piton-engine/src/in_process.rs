//! Plugins in process: code of an embedder that brings tools and hooks along, with a life of its own.
//!
//! ```text
//!   Engine::plugin(…) ─► Engine::start ─► before_initialize ─► initialize ─► after_initialize ─► … sessions … ─► destroy
//!                                         (each for all plugins, those first that others depend on; destroy in reverse)
//! ```
//!
//! One that fails, panics or takes too long is left out, and so is what depends on it; the others go on. How long each stage took is
//! told. Plugins that people keep as folders are [`crate::plugins`].

use crate::hooks::Hook;
use crate::settings::Settings;
use async_trait::async_trait;
use futures_util::FutureExt as _;
use piton_tools::tool::Tool;
use piton_tools::toolset::ToolSet;
use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::panic::AssertUnwindSafe;
use std::sync::Arc;
use std::time::{Duration, Instant};

/// How long a stage of one plugin may take.
pub const STAGE_TIME: Duration = Duration::from_secs(30);

/// Why a plugin cannot go on, in words.
pub type Failed = Box<dyn std::error::Error + Send + Sync>;

/// Code that brings tools and hooks along. Every stage has a default that does nothing.
///
/// Stages are called once each, one plugin at a time. A stage must not block its thread: the watch on its time could not end it.
#[async_trait]
pub trait EnginePlugin: Send + Sync {
    /// What it is called by; no two have the same name.
    fn name(&self) -> &str;

    /// The names of those that have to be initialized before it.
    fn depends_on(&self) -> Vec<String> {
        Vec::new()
    }

    /// Before any plugin is initialized.
    async fn before_initialize(&self) -> Result<(), Failed> {
        Ok(())
    }

    /// Adds what it brings along.
    async fn initialize(&self, _brings: &mut Brings) -> Result<(), Failed> {
        Ok(())
    }

    /// After all have been initialized.
    async fn after_initialize(&self) -> Result<(), Failed> {
        Ok(())
    }

    /// When the embedder is done. What it fails with is told and changes nothing.
    async fn destroy(&self) -> Result<(), Failed> {
        Ok(())
    }
}

/// What a plugin brings along.
#[derive(Default, Clone)]
pub struct Brings {
    tools: Vec<Arc<dyn Tool>>,
    hooks: Vec<Arc<dyn Hook>>,
}

impl Brings {
    /// A tool. It takes the place of a built-in one of its name, and of one of a plugin that was initialized before.
    pub fn tool(&mut self, tool: Arc<dyn Tool>) {
        self.tools.push(tool);
    }

    /// A hook. It runs after those of the settings.
    pub fn hook(&mut self, hook: Arc<dyn Hook>) {
        self.hooks.push(hook);
    }
}

/// A stage in the life of a plugin.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Stage {
    /// [`EnginePlugin::before_initialize`].
    BeforeInitialize,
    /// [`EnginePlugin::initialize`].
    Initialize,
    /// [`EnginePlugin::after_initialize`].
    AfterInitialize,
    /// [`EnginePlugin::destroy`].
    Destroy,
}

/// How a stage of a plugin went.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Timing {
    /// The plugin.
    pub plugin: String,
    /// The stage.
    pub stage: Stage,
    /// How long it took.
    pub took: Duration,
    /// Why it failed, if it did.
    pub failed: Option<String>,
}

/// Why plugins cannot be put in order.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum OrderError {
    /// Some depend on each other.
    #[error("these plugins depend on each other: {}", .0.join(" → "))]
    Cycle(Vec<String>),
    /// One depends on a plugin that there is not.
    #[error("the plugin {plugin} depends on {missing}, which there is not")]
    Missing {
        /// That one.
        plugin: String,
        /// What it depends on.
        missing: String,
    },
    /// Two have the same name.
    #[error("two plugins are called {0}")]
    Twice(String),
}

/// The plugins of an engine, not started yet.
#[derive(Default, Clone)]
pub(crate) struct Registered(Vec<Arc<dyn EnginePlugin>>);

impl fmt::Debug for Registered {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_list().entries(self.0.iter().map(|plugin| plugin.name())).finish()
    }
}

impl Registered {
    pub(crate) fn add(&mut self, plugin: Arc<dyn EnginePlugin>) {
        self.0.push(plugin);
    }

    /// Takes them through the stages of their beginning.
    pub(crate) async fn start(&self) -> Result<Running, OrderError> {
        let mut running = Running { plugins: ordered(&self.0)?, brings: BTreeMap::new(), timings: Vec::new() };
        running.stage(Stage::BeforeInitialize).await;
        running.stage(Stage::Initialize).await;
        running.stage(Stage::AfterInitialize).await;
        Ok(running)
    }
}

/// Plugins that were started.
pub struct Running {
    /// Those that did not fail, in order.
    plugins: Vec<Arc<dyn EnginePlugin>>,
    brings: BTreeMap<String, Brings>,
    timings: Vec<Timing>,
}

impl Running {
    /// The names of those that did not fail, in order.
    pub fn names(&self) -> impl Iterator<Item = &str> {
        self.plugins.iter().map(|plugin| plugin.name())
    }

    /// How each stage of each went, in order.
    pub fn timings(&self) -> &[Timing] {
        &self.timings
    }

    /// Settings with what the plugins bring, and with the embedder's `own` tools, which come before those of plugins.
    #[must_use]
    pub fn add_to(&self, settings: Settings, own: impl IntoIterator<Item = Arc<dyn Tool>>) -> Settings {
        let mut settings = settings;
        let brings = self.plugins.iter().filter_map(|plugin| self.brings.get(plugin.name()));
        for Brings { tools, hooks } in brings {
            settings.tools = tools.iter().cloned().fold(settings.tools, ToolSet::with);
            settings.hooks.extend(hooks.iter().cloned());
        }
        settings.tools = own.into_iter().fold(settings.tools, ToolSet::with);
        settings
    }

    /// Ends their lives, those first that depend on others. Returns how that went.
    pub async fn destroy(mut self) -> Vec<Timing> {
        self.plugins.reverse();
        self.timings.clear();
        self.stage(Stage::Destroy).await;
        self.timings
    }

    /// Takes each plugin through a stage. One that fails is left out from then on, with those that depend on it.
    async fn stage(&mut self, stage: Stage) {
        let (mut left, mut out) = (Vec::new(), BTreeSet::new());
        for plugin in std::mem::take(&mut self.plugins) {
            let name = plugin.name().to_owned();
            let needed = plugin.depends_on().into_iter().find(|needed| out.contains(needed));
            let (took, failed) = match needed.filter(|_| stage != Stage::Destroy) {
                Some(needed) => (Duration::ZERO, Some(format!("{needed}, which it depends on, failed"))),
                None => self.run(&*plugin, stage).await,
            };
            match &failed {
                None => tracing::debug!(target: "piton", plugin = name, ?stage, ?took, "plugin"),
                Some(why) => tracing::warn!(target: "piton", plugin = name, ?stage, ?took, why, "plugin left out"),
            }
            if failed.is_some() {
                self.brings.remove(&name);
                out.insert(name.clone());
            } else {
                left.push(plugin);
            }
            self.timings.push(Timing { plugin: name, stage, took, failed });
        }
        self.plugins = left;
    }

    async fn run(&mut self, plugin: &dyn EnginePlugin, stage: Stage) -> (Duration, Option<String>) {
        let (began, mut brings) = (Instant::now(), Brings::default());
        let doing = async {
            match stage {
                Stage::BeforeInitialize => plugin.before_initialize().await,
                Stage::Initialize => plugin.initialize(&mut brings).await,
                Stage::AfterInitialize => plugin.after_initialize().await,
                Stage::Destroy => plugin.destroy().await,
            }
        };
        let ended = tokio::time::timeout(STAGE_TIME, AssertUnwindSafe(doing).catch_unwind()).await;
        let failed = match ended {
            Ok(Ok(Ok(()))) => None,
            Ok(Ok(Err(error))) => Some(error.to_string()),
            Ok(Err(_)) => Some("it panicked".to_owned()),
            Err(_) => Some(format!("it took longer than {} seconds", STAGE_TIME.as_secs())),
        };
        if stage == Stage::Initialize && failed.is_none() {
            self.brings.insert(plugin.name().to_owned(), brings);
        }
        (began.elapsed(), failed)
    }
}

/// Plugins so that each stands behind those that it depends on, and otherwise as they were added.
fn ordered(plugins: &[Arc<dyn EnginePlugin>]) -> Result<Vec<Arc<dyn EnginePlugin>>, OrderError> {
    let mut by_name = BTreeMap::new();
    for plugin in plugins {
        if by_name.insert(plugin.name().to_owned(), plugin).is_some() {
            return Err(OrderError::Twice(plugin.name().to_owned()));
        }
    }
    let mut sorting = Sorting { by_name, way: Vec::new(), done: BTreeSet::new(), order: Vec::new() };
    plugins.iter().try_for_each(|plugin| sorting.visit(plugin.name()))?;
    Ok(sorting.order)
}

/// Plugins while they are put in order.
struct Sorting<'p> {
    by_name: BTreeMap<String, &'p Arc<dyn EnginePlugin>>,
    /// Those that are under way: each depends on the next.
    way: Vec<String>,
    done: BTreeSet<String>,
    order: Vec<Arc<dyn EnginePlugin>>,
}

impl Sorting<'_> {
    fn visit(&mut self, name: &str) -> Result<(), OrderError> {
        if self.done.contains(name) {
            return Ok(());
        }
        if let Some(at) = self.way.iter().position(|other| other == name) {
            let mut cycle = self.way.split_off(at);
            cycle.push(name.to_owned());
            return Err(OrderError::Cycle(cycle));
        }
        let Some(plugin) = self.by_name.get(name).map(|plugin| Arc::clone(plugin)) else {
            let plugin = self.way.last().cloned().unwrap_or_default();
            return Err(OrderError::Missing { plugin, missing: name.to_owned() });
        };
        self.way.push(name.to_owned());
        plugin.depends_on().iter().try_for_each(|needed| self.visit(needed))?;
        self.way.pop();
        self.done.insert(name.to_owned());
        self.order.push(plugin);
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use piton_core::call::{Effects, Outcome};
    use piton_models::recorded::Recorded;
    use piton_tools::plan::{Look, Plan};
    use piton_tools::tool::ToolContext;
    use piton_tools::typed::TypedTool;
    use std::sync::Mutex;

    /// Writes down what it is called for, and fails in the stage that is named.
    struct Noted {
        name: &'static str,
        needs: &'static [&'static str],
        fails: Option<Stage>,
        log: Arc<Mutex<Vec<String>>>,
    }

    impl Noted {
        fn note(&self, stage: Stage) -> Result<(), Failed> {
            self.log.lock().unwrap().push(format!("{} {stage:?}", self.name));
            match self.fails == Some(stage) {
                true => Err("it will not".into()),
                false => Ok(()),
            }
        }
    }

    #[async_trait]
    impl EnginePlugin for Noted {
        fn name(&self) -> &str {
            self.name
        }

        fn depends_on(&self) -> Vec<String> {
            self.needs.iter().map(|name| (*name).to_owned()).collect()
        }

        async fn before_initialize(&self) -> Result<(), Failed> {
            self.note(Stage::BeforeInitialize)
        }

        async fn initialize(&self, _brings: &mut Brings) -> Result<(), Failed> {
            assert!(self.name != "panics", "as it is called");
            self.note(Stage::Initialize)
        }

        async fn after_initialize(&self) -> Result<(), Failed> {
            self.note(Stage::AfterInitialize)
        }

        async fn destroy(&self) -> Result<(), Failed> {
            self.note(Stage::Destroy)
        }
    }

    type Described = (&'static str, &'static [&'static str], Option<Stage>);

    fn registered(plugins: &[Described]) -> (Registered, Arc<Mutex<Vec<String>>>) {
        let (mut all, log) = (Registered::default(), Arc::default());
        for (name, needs, fails) in plugins {
            all.add(Arc::new(Noted { name, needs, fails: *fails, log: Arc::clone(&log) }));
        }
        (all, log)
    }

    #[tokio::test]
    async fn they_live_in_the_order_in_which_they_depend_on_each_other() {
        let (all, log) = registered(&[("c", &["b"], None), ("a", &[], None), ("b", &["a"], None)]);
        let running = all.start().await.unwrap();
        assert_eq!(running.names().collect::<Vec<_>>(), ["a", "b", "c"]);
        assert_eq!(running.timings().len(), 9, "each stage of each is timed");
        let ended = running.destroy().await;
        assert_eq!(ended.iter().map(|timing| timing.plugin.as_str()).collect::<Vec<_>>(), ["c", "b", "a"]);
        let log = log.lock().unwrap();
        assert_eq!(log[..4], ["a BeforeInitialize", "b BeforeInitialize", "c BeforeInitialize", "a Initialize"]);
        assert_eq!(log[9..], ["c Destroy", "b Destroy", "a Destroy"]);
    }

    #[tokio::test]
    async fn one_that_fails_is_left_out_with_those_that_depend_on_it() {
        let fails = Some(Stage::Initialize);
        let (all, log) = registered(&[("a", &[], fails), ("b", &["a"], None), ("c", &[], None), ("panics", &[], None)]);
        let running = all.start().await.unwrap();
        assert_eq!(running.names().collect::<Vec<_>>(), ["c"]);
        let failed =
            running.timings().iter().filter_map(|timing| Some((timing.plugin.as_str(), timing.failed.as_deref()?)));
        let expected = [("a", "it will not"), ("b", "a, which it depends on, failed"), ("panics", "it panicked")];
        assert_eq!(failed.collect::<Vec<_>>(), expected);
        assert!(!log.lock().unwrap().contains(&"b Initialize".to_owned()));
    }

    /// A tool called `read` that says whose it is.
    struct ReadOf<const OF: usize>;

    const OWNERS: [&str; 2] = ["a plugin's", "the embedder's"];

    #[derive(serde::Serialize, serde::Deserialize, schemars::JsonSchema)]
    struct Nothing {}

    #[async_trait]
    impl<const OF: usize> TypedTool for ReadOf<OF> {
        type Input = Nothing;
        const NAME: &'static str = "read";
        const DESCRIPTION: &'static str = OWNERS[OF];
        const EFFECTS: Effects = Effects::READ;

        fn planned(&self, _: Nothing, _: &Look) -> Result<Plan, Outcome> {
            Err(Outcome::failed("nobody calls it"))
        }

        async fn act(&self, _: Nothing, _: &ToolContext) -> Outcome {
            Outcome::failed("nobody calls it")
        }
    }

    struct Reads;

    #[async_trait]
    impl EnginePlugin for Reads {
        fn name(&self) -> &str {
            "reads"
        }

        async fn initialize(&self, brings: &mut Brings) -> Result<(), Failed> {
            brings.tool(Arc::new(ReadOf::<0>));
            Ok(())
        }
    }

    #[tokio::test]
    async fn the_embedders_tool_wins_over_a_plugins_and_that_over_a_built_in_one() {
        let mut all = Registered::default();
        all.add(Arc::new(Reads));
        let running = all.start().await.unwrap();
        let said = |own: Vec<Arc<dyn Tool>>| {
            let settings = Settings::new(Arc::new(Recorded::parse("{\"text\":\"x\"}").unwrap()));
            let settings = running.add_to(settings, own);
            settings.tools.find("read").unwrap().0.description.clone()
        };
        assert_eq!(said(Vec::new()), OWNERS[0]);
        assert_eq!(said(vec![Arc::new(ReadOf::<1>)]), OWNERS[1]);
    }

    #[tokio::test]
    async fn what_cannot_be_put_in_order_is_an_error_with_the_names() {
        let error = |plugins: &[Described]| ordered(&registered(plugins).0.0).err().unwrap().to_string();
        assert_eq!(
            error(&[("x", &["a"], None), ("a", &["b"], None), ("b", &["a"], None)]),
            "these plugins depend on each other: a → b → a"
        );
        assert_eq!(error(&[("a", &["z"], None)]), "the plugin a depends on z, which there is not");
        assert_eq!(error(&[("a", &[], None), ("a", &[], None)]), "two plugins are called a");
    }
}
