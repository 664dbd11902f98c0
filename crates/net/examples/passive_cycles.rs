//! What a passive transfer costs without files and without the FTP machine: clients ask for a port,
//! connect, are sent 1 KiB and close, over one control connection each; prints cycles a second and
//! the server's CPU time each, round after round, so that TIME_WAIT can pile up.
//! `cargo run --release --example passive_cycles -- [CLIENTS] [CYCLES] [ROUNDS]`

use std::future::Future;
use std::io::{Error, Read as _, Result, Write as _};
use std::net::{Ipv4Addr, SocketAddr, TcpStream};
use std::sync::Arc;
use std::time::Duration;

use entrepot_net::control::{
    ControlGuest, ControlOptions, ControlProtocol, ControlSessions, ControlTls,
};
use entrepot_net::data::{DataPeer, DataPorts, DataPortsOptions, Lingerer, PortRange, SeatOptions};
use entrepot_net::guard::UnauthenticatedConnections;
use entrepot_net::listen;
use entrepot_net::meter::Stage;
use entrepot_net::server::{Listening, Server, ServerShared};
use entrepot_nouns::Env;
use rustix::time::{ClockId, clock_gettime};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::sync::watch;
use tokio_util::sync::CancellationToken;

const LOCAL: Ipv4Addr = Ipv4Addr::LOCALHOST;
const CONTENT: [u8; 1024] = [7; 1024];
const SOON: Duration = Duration::from_secs(30);

/// Answers `P` with a port and `R` with a transfer.
struct Transfers {
    ports: DataPorts,
    lingerer: Lingerer,
}

impl ControlSessions for Transfers {
    fn admits(&self, _peer: SocketAddr) -> bool {
        true
    }

    fn serve(&self, guest: ControlGuest) -> impl Future<Output = ()> + Send + 'static {
        let (ports, lingerer) = (self.ports.clone(), self.lingerer.clone());
        async move {
            if let Err(error) = serve(guest, &ports, &lingerer).await {
                eprintln!("a session ended: {error}");
            }
        }
    }
}

async fn serve(guest: ControlGuest, ports: &DataPorts, lingerer: &Lingerer) -> Result<()> {
    let ControlGuest { mut control, unauthenticated, .. } = guest;
    let meter = Arc::clone(control.meter());
    meter.advance(Stage::LoggedIn);
    unauthenticated.logged_in();
    let (local, peer, policy) = (control.local(), control.peer().ip(), DataPeer::Same);
    let mut seat = ports.seat(SeatOptions { local, peer, policy, meter });
    // Larger than a command, so that tokio need not ask whether there is more.
    let mut command = [0; 64];
    while control.read(&mut command).await? > 0 {
        if command.starts_with(b"P") {
            let port = seat.listen().map_err(Error::other)?.port();
            control.write_all(&port.to_be_bytes()).await?;
        } else {
            let mut data = seat.take(None, SOON).await.map_err(Error::other)?;
            data.write_all(&CONTENT).await?;
            data.finish_download(lingerer).await?;
            control.write_all(b"OK").await?;
        }
    }
    Ok(())
}

/// One client; answers with its CPU time.
fn cycle(server: SocketAddr, count: u32) -> Result<Duration> {
    let mut control = TcpStream::connect(server)?;
    control.set_nodelay(true)?;
    let mut buffer = [0; 2048];
    for _ in 0..count {
        control.write_all(b"P")?;
        let mut port = [0; 2];
        control.read_exact(&mut port)?;
        let mut data = TcpStream::connect((LOCAL, u16::from_be_bytes(port)))?;
        control.write_all(b"R")?;
        let mut read = 0;
        loop {
            match data.read(&mut buffer)? {
                0 => break,
                more => read += more,
            }
        }
        if read != CONTENT.len() {
            return Err(Error::other(format!("{read} bytes came")));
        }
        drop(data);
        control.read_exact(&mut port)?;
    }
    Ok(cpu(ClockId::ThreadCPUTime))
}

fn cpu(of: ClockId) -> Duration {
    let now = clock_gettime(of);
    let nanos = u64::try_from(now.tv_nsec).unwrap_or(0);
    Duration::from_secs(u64::try_from(now.tv_sec).unwrap_or(0)) + Duration::from_nanos(nanos)
}

fn round(server: SocketAddr, clients: u32, count: u32) -> Result<Duration> {
    let each = (0..clients).map(|_| std::thread::spawn(move || cycle(server, count)));
    let running: Vec<_> = each.collect();
    let mut clients = Duration::ZERO;
    for client in running {
        clients += client.join().map_err(|_| Error::other("a client failed"))??;
    }
    Ok(clients)
}

#[tokio::main(worker_threads = 2)]
async fn main() -> Result<()> {
    let mut args = std::env::args().skip(1).filter_map(|argument| argument.parse().ok());
    let mut next = |or| args.next().unwrap_or(or);
    let (clients, count, rounds) = (next(50), next(200), next(5));
    let env = Env::real();
    let options =
        DataPortsOptions { env: env.clone(), range: PortRange::default(), proxies: Vec::new() };
    let (ports, _refusals) = DataPorts::new(options);
    let acceptor = listen::bind((LOCAL, 0).into()).map_err(Error::other)?;
    let address = acceptor.local_address();
    let options =
        ControlOptions { admission: Arc::default(), tls: ControlTls::Off, login_time: SOON };
    let sessions = Transfers { ports: ports.clone(), lingerer: Lingerer::default() };
    let shared = ServerShared {
        unauthenticated: UnauthenticatedConnections::default(),
        env: env.clone(),
        drain: Duration::ZERO,
        stopping: CancellationToken::new(),
    };
    let listening = Listening { acceptor, config: watch::channel(options).1, shared };
    let server = Server { listening, protocol: ControlProtocol(sessions) };
    let stop = CancellationToken::new();
    let serving = tokio::spawn(server.run(stop.clone()));
    let keeping = tokio::spawn({
        let (ports, stop) = (ports.clone(), stop.clone());
        async move { ports.run(stop).await }
    });
    for _ in 0..rounds {
        let (began, cpu_began) = (env.elapsed(), cpu(ClockId::ProcessCPUTime));
        let running = tokio::task::spawn_blocking(move || round(address, clients, count));
        let clients_cpu = running.await.map_err(Error::other)??;
        let wall = env.elapsed().saturating_sub(began).as_secs_f64();
        let all = cpu(ClockId::ProcessCPUTime).saturating_sub(cpu_began);
        let server = all.saturating_sub(clients_cpu).as_secs_f64();
        let cycles = f64::from(clients) * f64::from(count);
        println!(
            "{clients} clients: {:.0} cycles/s, {:.1} us of server CPU each, {} ports bound",
            cycles / wall,
            server / cycles * 1e6,
            ports.bound(),
        );
    }
    stop.cancel();
    serving.await.map_err(Error::other)?;
    keeping.await.map_err(Error::other)
}
