//! Kept ports: who gets which, and who is let in.

use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};

use super::*;
use crate::limits::{DATA_CANDIDATES, DATA_LEASE_TIME, DATA_PORT_IDLE_TIME, DATA_SWEEP_INTERVAL};
use crate::tls::tests::{Client, options};
use crate::tls::{Reuse, TlsConfig, TlsSession, TlsVersion};

/// Takes the connection and sends a word through it.
async fn serve(seat: &mut PassiveSeat, client: &mut TcpStream) {
    let mut taken = seat.take(None, SOON).await.unwrap();
    assert_eq!(taken.peer(), client.local_addr().unwrap());
    taken.write_all(b"data").await.unwrap();
    taken.shutdown().await.unwrap();
    let mut read = Vec::new();
    client.read_to_end(&mut read).await.unwrap();
    assert_eq!(read, b"data");
}

#[tokio::test]
async fn clients_come_before_or_after_their_command_to_a_port_that_stays() {
    let fixture = Fixture::new(range(2), &[]);
    let mut seat = fixture.seat("127.0.0.1");
    let port = seat.listen().unwrap();
    assert_eq!(port.ip(), ip("127.0.0.1"), "never the wildcard");
    for round in 0..20 {
        assert_eq!(seat.listen().unwrap(), port);
        let mut client = if round % 2 == 0 {
            connect_from("127.0.0.1", port).await
        } else {
            let (taken, client) =
                tokio::join!(seat.take(None, SOON), connect_from("127.0.0.1", port));
            taken.unwrap().shutdown().await.unwrap();
            drop(client);
            seat.listen().unwrap();
            connect_from("127.0.0.1", port).await
        };
        serve(&mut seat, &mut client).await;
    }
    assert_eq!((fixture.ports.bound(), fixture.ports.refused()), (1, 0));
}

#[tokio::test]
async fn another_host_is_reset_and_reported_and_never_takes_the_place() {
    let mut fixture = Fixture::new(range(1), &[]);
    let mut seat = fixture.seat("127.0.0.1");
    let port = seat.listen().unwrap();
    for _ in 0..2 * DATA_CANDIDATES {
        assert!(is_refused("127.0.0.2", port).await);
        let told = fixture.refused().await;
        assert_eq!((told.peer.ip(), told.port), (ip("127.0.0.2"), port));
    }
    let mut owner = connect_from("127.0.0.1", port).await;
    serve(&mut seat, &mut owner).await;
    assert_eq!(fixture.ports.refused(), 2 * DATA_CANDIDATES as u64);
}

#[tokio::test]
async fn an_expectation_serves_one_transfer() {
    let mut fixture = Fixture::new(range(1), &[]);
    let mut seat = fixture.seat("127.0.0.1");
    assert_eq!(seat.take(None, SOON).await.unwrap_err().code(), "EP0252");
    let port = seat.listen().unwrap();
    let mut first = connect_from("127.0.0.1", port).await;
    serve(&mut seat, &mut first).await;
    assert!(!seat.is_expecting());
    assert!(is_refused("127.0.0.1", port).await, "nobody expects it");
    fixture.refused().await;
    assert_eq!(seat.take(None, SOON).await.unwrap_err().code(), "EP0252");
    seat.listen().unwrap();
    let nobody = seat.take(None, Duration::from_millis(10)).await;
    assert_eq!(nobody.unwrap_err().code(), "EP0253");
}

#[tokio::test]
async fn a_new_pasv_drops_who_waited_for_the_old_one() {
    let fixture = Fixture::new(range(1), &[]);
    let mut seat = fixture.seat("127.0.0.1");
    let port = seat.listen().unwrap();
    let mut old = connect_from("127.0.0.1", port).await;
    // Only when it has arrived it can be dropped.
    while !seat.has_waiting() {
        tokio::task::yield_now().await;
    }
    seat.listen().unwrap();
    assert!(is_reset(&mut old).await);
    let mut new = connect_from("127.0.0.1", port).await;
    serve(&mut seat, &mut new).await;
}

/// A client that gives up and asks for the next connection at once is faster than the task that
/// accepts; what came for the transfer that was aborted must not be taken for the next one.
#[tokio::test]
async fn who_came_for_an_older_expectation_is_not_taken_for_a_newer_one() {
    let fixture = Fixture::new(range(1), &[]);
    let mut seat = fixture.seat("127.0.0.1");
    for seat_is_new in [false, true] {
        let port = seat.listen().unwrap();
        // Nothing is accepted meanwhile, for this thread does not wait.
        let early = std::net::TcpStream::connect(port).unwrap();
        if seat_is_new {
            drop(seat);
            seat = fixture.seat("127.0.0.1");
        }
        assert_eq!(seat.listen().unwrap(), port);
        assert!(!seat.has_waiting());
        let mut client = connect_from("127.0.0.1", port).await;
        serve(&mut seat, &mut client).await;
        drop(early);
    }
}

#[tokio::test]
async fn sessions_of_one_client_never_share_a_port_those_of_others_do() {
    let fixture = Fixture::new(range(3), &[]);
    let mut seats: Vec<PassiveSeat> = Vec::new();
    let mut own = Vec::new();
    for _ in 0..3 {
        let mut seat = fixture.seat("127.0.0.1");
        own.push(seat.listen().unwrap());
        seats.push(seat);
    }
    own.sort();
    own.dedup();
    assert_eq!(own.len(), 3);
    assert_eq!(fixture.seat("127.0.0.1").listen().unwrap_err().code(), "EP0250");
    for other in 2..100 {
        let mut seat = fixture.seat(&format!("127.0.0.{other}"));
        assert!(own.contains(&seat.listen().unwrap()));
        seats.push(seat);
    }
    assert_eq!(fixture.ports.bound(), 3);
    drop(seats);
    let mut again = fixture.seat("::ffff:127.0.0.1");
    assert!(own.contains(&again.listen().unwrap()));
}

#[tokio::test]
async fn the_port_that_was_longest_unused_is_leased_first() {
    let fixture = Fixture::new(range(3), &[]);
    let mut seats: Vec<PassiveSeat> = (0..3).map(|_| fixture.seat("127.0.0.1")).collect();
    let ports: Vec<_> = seats.iter_mut().map(|seat| seat.listen().unwrap()).collect();
    let third = seats.pop();
    drop(seats.remove(0));
    drop(third);
    drop(seats);
    let order = [ports[0], ports[2], ports[1]];
    let mut again: Vec<PassiveSeat> = (0..3).map(|_| fixture.seat("127.0.0.1")).collect();
    let leased: Vec<_> = again.iter_mut().map(|seat| seat.listen().unwrap()).collect();
    assert_eq!(leased, order);
}

#[tokio::test]
async fn leases_without_a_client_end_and_idle_ports_are_given_back() {
    let fixture = Fixture::new(range(2), &[]);
    let (mut idle, mut used) = (fixture.seat("127.0.0.1"), fixture.seat("127.0.0.1"));
    idle.listen().unwrap();
    let port = used.listen().unwrap();
    let mut client = connect_from("127.0.0.1", port).await;
    serve(&mut used, &mut client).await;
    fixture.env.advance(DATA_LEASE_TIME);
    fixture.ports.sweep();
    assert_eq!(idle.take(None, SOON).await.unwrap_err().code(), "EP0252");
    assert_eq!(used.listen().unwrap(), port, "whose client has come keeps its lease");
    used.forget();
    assert_eq!(fixture.ports.bound(), 2);
    fixture.env.advance(DATA_PORT_IDLE_TIME);
    fixture.ports.sweep();
    assert_eq!(fixture.ports.bound(), 1);
    assert_eq!(used.listen().unwrap(), port);
    // The accept task of the port that was given back closes it on its next turn.
    tokio::task::yield_now().await;
    assert!(idle.listen().is_ok(), "a new lease");
    drop((used, idle));
    fixture.env.advance(DATA_PORT_IDLE_TIME);
    fixture.ports.sweep();
    assert_eq!(fixture.ports.bound(), 0);
}

#[tokio::test]
async fn a_new_range_holds_for_new_leases() {
    let fixture = Fixture::new(range(1), &[]);
    let mut old = fixture.seat("127.0.0.1");
    let port = old.listen().unwrap();
    fixture.ports.set_range(range(1));
    let mut new = fixture.seat("127.0.0.2");
    assert_ne!(new.listen().unwrap(), port);
    assert_eq!(old.listen().unwrap(), port);
    drop(old);
    fixture.ports.sweep();
    assert_eq!(fixture.ports.bound(), 1);
}

#[tokio::test(start_paused = true)]
async fn the_end_of_the_server_gives_every_port_back() {
    let fixture = Fixture::new(range(1), &[]);
    let mut seat = fixture.seat("127.0.0.1");
    let port = seat.listen().unwrap();
    let stop = tokio_util::sync::CancellationToken::new();
    let running = fixture.ports.run(stop.clone());
    tokio::time::timeout(2 * DATA_SWEEP_INTERVAL, async {
        tokio::join!(running, async { stop.cancel() });
    })
    .await
    .unwrap();
    listen::free_address(port).unwrap();
}

#[test]
fn ranges_are_read_and_their_order_holds_every_port_once() {
    let range: PortRange = "50000-50099".parse().unwrap();
    assert_eq!(range.to_string(), "50000-50099");
    for bad in ["", "0-5", "9-8", "70000", "a-b", "1-2-3"] {
        assert!(bad.parse::<PortRange>().is_err(), "{bad}");
    }
    let order = range.shuffled(&Env::simulated(1));
    assert_ne!(order, range.shuffled(&Env::simulated(2)));
    let mut sorted = order.clone();
    sorted.sort_unstable();
    assert_ne!(order, sorted);
    assert_eq!(sorted, (50_000..=50_099).collect::<Vec<u16>>());
}

#[tokio::test]
async fn listed_networks_are_taken_and_lease_a_port_alone() {
    let fixture = Fixture::new(range(2), &[]);
    let listed = DataPeer::Networks(vec!["127.0.0.0/29".parse().unwrap()]);
    let mut seat = fixture.seat_with("127.0.0.1", listed);
    let port = seat.listen().unwrap();
    let mut other = fixture.seat("127.0.0.5");
    assert_ne!(other.listen().unwrap(), port);
    assert!(is_refused("127.0.0.9", port).await);
    let mut near = connect_from("127.0.0.5", port).await;
    serve(&mut seat, &mut near).await;
}

#[tokio::test]
async fn balancers_say_for_whom_they_connect() {
    const SIGNATURE: &[u8] = b"\r\n\r\n\0\r\nQUIT\n";
    let mut fixture = Fixture::new(range(1), &["127.0.0.1/32"]);
    let mut seat = fixture.seat("198.51.100.7");
    let port = seat.listen().unwrap();
    let header = |client: [u8; 4]| {
        let addresses = [&client[..], &[10, 0, 0, 1, 0x30, 0x39, 0, 20]].concat();
        [SIGNATURE, &[0x21, 0x11, 0, 12], &addresses].concat()
    };
    let _silent = connect_from("127.0.0.1", port).await;
    let mut other = connect_from("127.0.0.1", port).await;
    other.write_all(&header([198, 51, 100, 8])).await.unwrap();
    assert!(is_reset(&mut other).await);
    assert_eq!(fixture.refused().await.peer, "198.51.100.8:12345".parse().unwrap());
    let mut owner = connect_from("127.0.0.1", port).await;
    owner.write_all(&[&header([198, 51, 100, 7])[..], b"x"].concat()).await.unwrap();
    let mut taken = seat.take(None, SOON).await.unwrap();
    assert_eq!(taken.peer(), "198.51.100.7:12345".parse().unwrap());
    let mut byte = [0];
    taken.read_exact(&mut byte).await.unwrap();
    assert_eq!(&byte, b"x");
}

/// A session under TLS whose client has tickets.
async fn secured(version: TlsVersion) -> (TlsSession, Client, Client) {
    let options = options();
    let config = TlsConfig::new(&options, &Env::real()).unwrap();
    let (session, client) = (config.session(), Client::new(&options, version));
    let (near, far) = tokio::io::duplex(64 * 1024);
    let (server, control) = tokio::join!(session.accept_control(near), client.connect(far));
    let (mut server, mut control) = (server.unwrap(), control.unwrap());
    server.write_all(b"220").await.unwrap();
    server.flush().await.unwrap();
    control.read_exact(&mut [0; 3]).await.unwrap();
    (session, client, Client::new(&options, version))
}

fn protected(session: &TlsSession) -> DataTls {
    DataTls { session: session.clone(), reuse: Reuse::Required }
}

#[tokio::test]
async fn under_tls_the_owner_is_served_whoever_came_before() {
    let fixture = Fixture::new(range(1), &[]);
    for version in [TlsVersion::Tls12, TlsVersion::Tls13] {
        let (session, owner, thief) = secured(version).await;
        let mut seat = fixture.seat("127.0.0.1");
        let port = seat.listen().unwrap();
        let _silent = [
            connect_from("127.0.0.1", port).await,
            connect_from("127.0.0.1", port).await,
            connect_from("127.0.0.1", port).await,
        ];
        let stealing = connect_from("127.0.0.1", port).await;
        let owning = connect_from("127.0.0.1", port).await;
        let tls = protected(&session);
        let (taken, _, read) = tokio::join!(
            async {
                let mut taken = seat.take(Some(&tls), SOON).await.unwrap();
                assert!(taken.tls_info().unwrap().resumed);
                taken.write_all(b"secret").await.unwrap();
                taken.shutdown().await.unwrap();
                taken.peer()
            },
            async { thief.connect(stealing).await.map(drop) },
            async {
                let mut stream = owner.connect(owning).await.unwrap();
                let mut read = Vec::new();
                stream.read_to_end(&mut read).await.unwrap();
                (stream.get_ref().0.local_addr().unwrap(), read)
            },
        );
        assert_eq!((taken, b"secret".to_vec()), read);
    }
}

#[tokio::test]
async fn whoever_does_not_resume_is_not_waited_for_again_and_again() {
    let fixture = Fixture::new(range(1), &[]);
    let (session, _owner, other) = secured(TlsVersion::Tls13).await;
    let mut seat = fixture.seat("127.0.0.1");
    let port = seat.listen().unwrap();
    let tls = protected(&session);
    let trying = async {
        for _ in 0..DATA_CANDIDATES {
            let _ = other.connect(connect_from("127.0.0.1", port).await).await;
        }
    };
    let (taken, ()) = tokio::join!(seat.take(Some(&tls), SOON), trying);
    assert_eq!(taken.unwrap_err().code(), "EP0248");
}

#[tokio::test]
async fn any_address_is_taken_if_it_resumes_and_not_in_clear() {
    let fixture = Fixture::new(range(1), &[]);
    let (session, owner, thief) = secured(TlsVersion::Tls13).await;
    let other = thief.clone();
    let mut seat = fixture.seat_with("127.0.0.1", DataPeer::AnyResumed);
    let port = seat.listen().unwrap();
    let mut elsewhere = connect_from("127.0.0.7", port).await;
    let mut own = connect_from("127.0.0.1", port).await;
    serve(&mut seat, &mut own).await;
    assert!(is_reset(&mut elsewhere).await);
    seat.listen().unwrap();
    let elsewhere = connect_from("127.0.0.7", port).await;
    let tls = protected(&session);
    let (taken, client) = tokio::join!(seat.take(Some(&tls), SOON), owner.connect(elsewhere));
    assert_eq!(taken.unwrap().peer().ip(), ip("127.0.0.7"));
    client.unwrap();
    // From elsewhere it must resume whatever the account says; from its own address it need not.
    seat.listen().unwrap();
    let tls = DataTls { reuse: Reuse::Preferred, ..tls };
    let stealing = connect_from("127.0.0.7", port).await;
    let owning = connect_from("127.0.0.1", port).await;
    let own = owning.local_addr().unwrap();
    let (taken, _, client) = tokio::join!(
        seat.take(Some(&tls), SOON),
        async { thief.connect(stealing).await.map(drop) },
        other.connect(owning),
    );
    assert_eq!(taken.unwrap().peer(), own);
    client.unwrap();
}
