//! From a spawn to a sandbox order: the private home, the tree, the mounts, the client's command line.

use std::path::{Path, PathBuf};

use roboco_company::fault::Fault;
use roboco_domain::command::AgentActor;
use roboco_domain::id::{AgentId, TaskId};
use roboco_domain::project::Project;
use roboco_domain::role::Role;
use roboco_domain::roster::{Agent, Tier};
use roboco_domain::spawn::Spawn;
use roboco_domain::task::Task;
use roboco_git::{Freshness, TreeName, Unsaved};
use roboco_providers::{ClientSpec, FileAccess, Launch, Login, Play, Provider, RunCaps, RunsAs, Session};
use roboco_sandbox::{Access, Confinement, Env, Labels, Limits, Mount, Network, SandboxSpec, Trust, program_mounts};
use secrecy::ExposeSecret as _;

use crate::effects::fault;
use crate::{LoginKind, NetworkAccess, Shared, home};

/// The home inside a confined sandbox.
const HOME_INSIDE: &str = "/home/agent";

/// Everything needed to start a client.
pub(crate) struct Order {
    pub(crate) sandbox: SandboxSpec,
    pub(crate) first_input: Vec<String>,
    pub(crate) provider: Box<dyn Provider>,
}

/// The name of a reviewer's tree. One per task and reviewer, so that two reviews never share files.
pub(crate) fn review_key(task: TaskId, reviewer: AgentId) -> String {
    format!("{}-{}", task.uuid().simple(), &reviewer.uuid().simple().to_string()[16..])
}

/// Prepares the order of a spawn.
pub(crate) async fn prepare(shared: &Shared, spawn: &Spawn, task: &Task) -> Result<Order, Fault> {
    let company = shared.company();
    let agent = company.roster().agent(spawn.agent).ok_or_else(|| Fault::lasting("the agent left the roster"))?;
    let provider = roboco_providers::provider(&spawn.provider).ok_or_else(|| {
        Fault::lasting(format!("there is no provider {:?}; set routing.default to one of claude, scripted", spawn.provider))
    })?;
    let settings = shared
        .config
        .providers
        .get(&spawn.provider)
        .ok_or_else(|| Fault::lasting(format!("provider {} is not configured", spawn.provider)))?;
    let project = company.store().project(task.project).await?.ok_or_else(|| Fault::lasting("the project is gone"))?;
    let brief = company.brief(spawn, task).await?;
    let home = shared.config.homes.join(&agent.slug);
    home::make(&home)?;
    let (tree, access) = tree_of(shared, agent, task).await?;
    std::fs::create_dir_all(&tree).map_err(|e| Fault::passing(format!("creating {}: {e}", tree.display())))?;
    // One look decides the paths, the client's switches and how the sandbox is made.
    let confined = shared.parts.driver.confinement().await;
    let token = shared.parts.door.mint(&AgentActor {
        agent: spawn.agent,
        role: agent.role,
        team: agent.team.clone(),
        spawn: spawn.id,
        epoch: spawn.epoch,
    })?;
    // The bridge knows the address it listens on, and writes it wherever this stands.
    let door = "{{door}}";
    let session = spawn.id.to_string();
    let home_inside = if confined.is_confined() { PathBuf::from(HOME_INSIDE) } else { home.clone() };
    let launch = Launch {
        program: &settings.program,
        model: spawn.model.as_deref(),
        system_prompt: &brief.system,
        brief: &brief.message,
        facts: &brief.facts,
        mcp_url: &format!("http://{door}/mcp/{}", spawn.id),
        agent_token: &token,
        model_base_url: &format!("http://{door}/model/{}", spawn.provider),
        login: match settings.login {
            LoginKind::ApiKey => Login::ApiKey,
            LoginKind::Subscription => Login::Subscription,
        },
        session: spawn.resume.as_deref().map_or(Session::New(&session), Session::Resume),
        home: &home_inside,
        confinement: confinement(&confined),
        files: if Role::AUTHORS.contains(&agent.role) { FileAccess::Write } else { FileAccess::ReadOnly },
        caps: RunCaps::default(),
        play: shared.config.play.as_ref().map(|(file, files)| Play { file, files }),
    };
    let client = provider.launch(&launch).map_err(|e| Fault::lasting(e.to_string()))?;
    home::write(&home, &client.files)?;
    let sandbox = order(shared, spawn, agent, &project, &client, &tree, access, &home, confined);
    Ok(Order { sandbox, first_input: client.first_input, provider })
}

/// The model of an agent with a provider.
pub(crate) fn model_of(shared: &Shared, provider: &str, agent: &Agent) -> Option<String> {
    let row = roboco_providers::table::row(provider)?;
    let settings = shared.config.providers.get(provider)?;
    match agent.tier {
        Tier::Standard => settings.standard.clone().or_else(|| row.standard.map(str::to_owned)),
        Tier::Strong => settings.strong.clone().or_else(|| row.strong.map(str::to_owned)),
    }
}

fn confinement(confined: &Confinement) -> roboco_providers::Confinement {
    if !confined.is_confined() {
        return roboco_providers::Confinement::Unconfined;
    }
    let root = rustix::process::geteuid().is_root();
    roboco_providers::Confinement::Confined(if root { RunsAs::Root } else { RunsAs::User })
}

/// The tree an agent works in. Authors share the branch's; a judge has one of its own, which may be written because tests write.
async fn tree_of(shared: &Shared, agent: &Agent, task: &Task) -> Result<(PathBuf, Access), Fault> {
    let repos = &shared.parts.repos;
    let own = TreeName::Branch(task.delivery.branch.clone());
    Ok(match agent.role {
        Role::Developer | Role::Documenter => (repos.tree_path(task.project, &own), Access::ReadWrite),
        Role::Qa | Role::PrReviewer => match TreeName::review(&review_key(task.id, agent.id)) {
            Ok(name) => (repos.tree_path(task.project, &name), Access::ReadWrite),
            Err(_) => (repos.tree_path(task.project, &own), Access::ReadOnly),
        },
        // Nobody writes on the branch of assembled work, so it has no tree that could be shared.
        _ if task.shape.is_assembled() => (reading_tree(shared, agent, task).await?, Access::ReadOnly),
        _ => (repos.tree_path(task.project, &own), Access::ReadOnly),
    })
}

/// A tree for reading what is assembled so far; before the branch is there, what it will be cut from.
async fn reading_tree(shared: &Shared, agent: &Agent, task: &Task) -> Result<PathBuf, Fault> {
    let repos = &shared.parts.repos;
    let commit = match &task.delivery.head {
        Some(head) => head.clone(),
        None => {
            let base = task.delivery.base();
            match repos.base_head(task.project, &base, Freshness::Fetch).await {
                // Reading needs no origin that answers: what was last seen of it does.
                Err(error) if error.is_retryable() => repos.base_head(task.project, &base, Freshness::Cached).await,
                seen => seen,
            }
            .map_err(fault)?
        }
    };
    repos.review_tree(task.project, &review_key(task.id, agent.id), &commit).await.map_err(fault)
}

/// Takes the tree away that was made for reading, when its reader is gone.
pub(crate) async fn release(shared: &Shared, spawn: &Spawn) -> Result<(), Fault> {
    let company = shared.company();
    let reader = company.roster().agent(spawn.agent).is_some_and(|a| matches!(a.role, Role::CellPm | Role::MainPm));
    let Some(task) = company.store().task(spawn.task).await?.filter(|t| reader && t.shape.is_assembled()) else { return Ok(()) };
    let name = TreeName::review(&review_key(task.id, spawn.agent)).map_err(|e| Fault::lasting(e.to_string()))?;
    shared.parts.repos.release_tree(task.project, &name, Unsaved::Discard).await.map(drop).map_err(fault)
}

#[expect(clippy::too_many_arguments, reason = "one order is put together from everything that was prepared for it")]
fn order(
    shared: &Shared,
    spawn: &Spawn,
    agent: &Agent,
    project: &Project,
    client: &ClientSpec,
    tree: &Path,
    access: Access,
    home: &Path,
    confined: Confinement,
) -> SandboxSpec {
    let company = shared.company().id();
    let mut mounts = vec![Mount::same(tree, access)];
    // The history is readable where it is, so that status, log and diff work; nothing in it can be written.
    mounts.push(Mount::same(shared.parts.repos.store_path(project.id), Access::ReadOnly));
    if let Some(program) = client.argv.first() {
        mounts.extend(program_mounts(Path::new(program)));
    }
    if let Some((file, files)) = &shared.config.play
        && spawn.provider == roboco_providers::scripted::NAME
    {
        mounts.push(Mount::same(file, Access::ReadOnly));
        mounts.push(Mount::same(files, Access::ReadOnly));
    }
    let mut env: Env = client.env.iter().map(|(name, value)| (name.clone(), value.expose().to_owned())).collect();
    env = env.with("LANG", "C.UTF-8").with("GIT_OPTIONAL_LOCKS", "0").with("GIT_TERMINAL_PROMPT", "0");
    let door = shared.config.door.clone();
    SandboxSpec {
        name: format!("roboco-{}-{}", &company.uuid().simple().to_string()[20..], agent.slug),
        labels: Labels::from([
            ("spawn".to_owned(), spawn.id.to_string()),
            ("epoch".to_owned(), spawn.epoch.to_string()),
            ("agent".to_owned(), agent.slug.clone()),
            ("task".to_owned(), spawn.number.task.to_string()),
            ("provider".to_owned(), spawn.provider.clone()),
        ]),
        argv: client.argv.clone(),
        env,
        cwd: tree.to_owned(),
        mounts,
        home: home.to_owned(),
        door_files: client
            .files
            .iter()
            .filter(|f| f.content.expose_secret().contains("{{door}}"))
            .map(|f| PathBuf::from(&f.path))
            .collect(),
        network: match shared.config.network {
            NetworkAccess::Door => Network::Door(door),
            NetworkAccess::Host => Network::Host { door: Some(door) },
        },
        limits: Limits { memory_bytes: shared.config.memory_bytes, pids: Some(shared.config.pids) },
        masks: Vec::new(),
        trust: if spawn.provider == roboco_providers::scripted::NAME { Trust::Own } else { Trust::Foreign },
        confinement: Some(confined),
    }
}
