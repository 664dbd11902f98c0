// A node in memory for the fuzz targets of the adapter and for the test that replays their corpus:
// one account with every right over a memory store, and a small mount. Included by path.

use std::sync::Arc;

use entrepot_nouns::{Env, Mount, MountOption, Quota, Secret, SiteId};
use entrepot_ssh::keys;
use entrepot_ssh::server::{SshConfig, SshOptions};
use entrepot_vfs::{ListenerContext, ServiceOptions, Session};
use entrepot_world::{Testbed, mount, name};

/// Without its node a fuzz target has nothing to do.
pub(crate) trait OrStop<T> {
    /// The value; panics, and so ends the run, if there is none.
    fn or_stop(self) -> T;
}

impl<T, E: std::fmt::Debug> OrStop<T> for Result<T, E> {
    fn or_stop(self) -> T {
        // Invariant: the node above admits the account and opens sessions for it.
        self.expect("a node in a folder")
    }
}

/// The node, and the host key of its listener.
pub(crate) struct World {
    node: entrepot_world::World,
    host_key: Secret,
}

impl World {
    /// Starts a node that nothing was sent to yet; its folder is in memory where the machine
    /// offers that.
    pub(crate) async fn start() -> World {
        let bed = Arc::new(Testbed::start_in_memory(Env::real()).await);
        let node = entrepot_world::World::over(bed, ServiceOptions::default()).await;
        node.account("anna", |account| account.password_hash = None).await;
        node.memory_endpoint("files").await;
        node.put(&with_options(mount("all", "anna", "/", "files"))).await;
        let quota = Quota { size_bytes: Some(10_000), files: Some(5), file_size_bytes: None };
        let small = with_options(mount("small", "anna", "/small", "files"));
        node.put(&Mount { prefix: "small".to_owned(), quota: Some(quota), ..small }).await;
        let host_key = keys::generate(&node.env, "host").or_stop().private;
        World { node, host_key }
    }

    /// A session of the account.
    pub(crate) async fn session(&self) -> Session {
        let grant = self.node.gate.internal(SiteId::MAIN, &name("anna"), "fuzz").await;
        Session::open(&self.node.vfs, grant.or_stop()).await.or_stop()
    }

    /// What a listener of SFTP passes to each of its connections.
    pub(crate) fn context(&self) -> Arc<ListenerContext> {
        Arc::new(ListenerContext {
            site: SiteId::MAIN,
            listener: name("sftp"),
            gate: self.node.gate.clone(),
            vfs: self.node.vfs.clone(),
            env: self.node.env.clone(),
        })
    }

    /// The options of that listener, with a host key made at the start of the node.
    pub(crate) fn config(&self) -> SshConfig {
        let options = SshOptions::new(vec![self.host_key.clone()]);
        entrepot_sftp::config(&name("sftp"), &options).or_stop()
    }

    /// The clock and randomness of all parts of the node.
    pub(crate) fn env(&self) -> &Env {
        &self.node.env
    }
}

fn with_options(mount: Mount) -> Mount {
    let options = [MountOption::HardLinks, MountOption::ListPartials, MountOption::Symlinks];
    Mount { options: options.into(), ..mount }
}
