//! How requests to an object store are limited, sent side by side and tried again.

use std::io::{Read, Write};
use std::net::{Ipv4Addr, TcpListener, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

use bytes::Bytes;
use entrepot_nouns::Period;
use entrepot_nouns::endpoint::ObjectRequests;
use entrepot_storage::*;
use entrepot_testkit::s3::S3Server;
use tokio::sync::Barrier;

use crate::*;

const MIB: usize = 1 << 20;

/// One try, and none waits for long.
fn impatient() -> ObjectRequests {
    let second = Some(Period::from_seconds(1));
    ObjectRequests {
        attempts: Some(1),
        connect_timeout: second,
        answer_timeout: second,
        idle_timeout: second,
        ..ObjectRequests::default()
    }
}

/// Counts requests that are being answered, and how many were at a time.
#[derive(Default)]
struct Crowd {
    there: AtomicU32,
    most: AtomicU32,
}

impl Crowd {
    fn enter(&self) {
        let there = self.there.fetch_add(1, Ordering::SeqCst) + 1;
        self.most.fetch_max(there, Ordering::SeqCst);
    }

    fn leave(&self) {
        self.there.fetch_sub(1, Ordering::SeqCst);
    }
}

#[tokio::test]
async fn parts_go_side_by_side_as_many_as_the_endpoint_says() {
    let server = S3Server::start().unwrap();
    let requests = ObjectRequests {
        part_size_mib: Some(5),
        parts_at_once: Some(3),
        ..ObjectRequests::default()
    };
    let store = on_server_with(&server, requests);
    let (crowd, three) = (Arc::new(Crowd::default()), Arc::new(Barrier::new(3)));
    let seen = Arc::clone(&crowd);
    let parts = AtomicU32::new(0);
    server.set_gate(move |request| {
        let (crowd, three) = (Arc::clone(&seen), Arc::clone(&three));
        let is_part = request == "PUT some/prefix/big";
        let number = parts.fetch_add(u32::from(is_part), Ordering::SeqCst);
        async move {
            if is_part {
                crowd.enter();
                if number < 3 {
                    // It never opens for parts that come one by one.
                    three.wait().await;
                }
                crowd.leave();
            }
            None
        }
    });
    let data = pattern(7, 7 * 5 * MIB + 1);
    let file = store.stage(id(), &path("big")).await.unwrap();
    for (number, chunk) in data.chunks(MIB).enumerate() {
        file.write_at((number * MIB) as u64, Bytes::copy_from_slice(chunk)).await.unwrap();
    }
    file.sync().await.unwrap();
    file.publish(&how(Existing::Refuse, data.len())).await.unwrap();
    assert_eq!(crowd.most.load(Ordering::SeqCst), 3);
    assert!(get(&*store, "big").await.unwrap() == data);
    assert_eq!(server.orphan_parts().unwrap(), 0);
}

/// The last parts arrive, one before them does not.
#[tokio::test]
async fn a_part_that_fails_is_told_and_what_lies_behind_it_is_not_kept() {
    let server = S3Server::start().unwrap();
    let requests = ObjectRequests { parts_at_once: Some(3), ..impatient() };
    let store = on_server_with(&server, requests);
    let (count, after) = (Arc::new(AtomicU32::new(0)), Arc::new(Barrier::new(2)));
    server.set_gate(move |request| {
        let (number, after) = (count.fetch_add(1, Ordering::SeqCst), Arc::clone(&after));
        async move {
            let is_part = request == "PUT some/prefix/big";
            match number {
                // The first request begins the upload.
                2 if is_part => {
                    after.wait().await;
                    return Some(403);
                }
                3 if is_part => {
                    after.wait().await;
                }
                _ => {}
            }
            None
        }
    });
    let id = id();
    let data = pattern(8, 3 * 5 * MIB + 1);
    let file = store.stage(id, &path("big")).await.unwrap();
    let written = file.write_at(0, Bytes::from(data.clone())).await;
    let told = match written {
        Ok(()) => file.sync().await,
        error => error,
    };
    assert!(matches!(told, Err(StoreError::Denied(_))), "{told:?}");
    let later = file.publish(&how(Existing::Refuse, data.len())).await;
    assert!(later.is_err(), "{later:?}");
    drop(file);
    // Parts are waited for behind each eighth only.
    let kept = store.staged().await.unwrap();
    assert!(kept.iter().all(|kept| kept.size <= 5 * MIB as u64), "{kept:?}");
    store.discard_staged(id).await.unwrap();
    assert_eq!(server.orphan_parts().unwrap(), 0);
    assert_eq!(store.stat(&path("big")).await, Err(StoreError::NotFound));
}

#[tokio::test]
async fn a_request_is_tried_as_often_as_the_endpoint_says() {
    let server = S3Server::start().unwrap();
    for attempts in [1, 3] {
        let requests = ObjectRequests {
            attempts: Some(attempts),
            backoff: Some(Period::from_seconds(0)),
            ..ObjectRequests::default()
        };
        let store = on_server_with(&server, requests);
        let tried = Arc::new(AtomicU32::new(0));
        let count = Arc::clone(&tried);
        server.set_gate(move |_| {
            count.fetch_add(1, Ordering::SeqCst);
            std::future::ready(Some(500))
        });
        assert!(store.stat(&path("a")).await.is_err());
        let tried = tried.load(Ordering::SeqCst);
        assert_eq!(tried % attempts, 0, "{tried} requests of {attempts} tries each");
        assert!((attempts..=2 * attempts).contains(&tried), "{tried}");
    }
}

#[tokio::test]
async fn no_more_connections_are_made_than_the_endpoint_says() {
    let server = S3Server::start().unwrap();
    let requests = ObjectRequests { connections: Some(2), ..ObjectRequests::default() };
    let store = on_server_with(&server, requests);
    let crowd = Arc::new(Crowd::default());
    let seen = Arc::clone(&crowd);
    server.set_gate(move |_| {
        let crowd = Arc::clone(&seen);
        async move {
            crowd.enter();
            for _ in 0..100 {
                tokio::task::yield_now().await;
            }
            crowd.leave();
            None
        }
    });
    let mut puts = tokio::task::JoinSet::new();
    for number in 0..20 {
        let store = store.clone();
        puts.spawn(async move { put(&*store, &format!("f{number}"), b"content").await });
    }
    while let Some(put) = puts.join_next().await {
        put.unwrap().unwrap();
    }
    assert!(crowd.most.load(Ordering::SeqCst) <= 2, "{}", crowd.most.load(Ordering::SeqCst));
    assert_eq!(names(&*store, "", 99).await.unwrap().len(), 20);
}

#[tokio::test]
async fn a_store_that_does_not_answer_is_not_waited_for() {
    let server = S3Server::start().unwrap();
    let store = on_server_with(&server, impatient());
    server.set_gate(|_| std::future::pending());
    let error = store.stat(&path("a")).await.unwrap_err().to_string();
    assert!(error.contains("did not begin to answer within 1s"), "{error}");
}

/// Answers what comes before the parts of an upload, and takes no part.
fn serve_no_part(mut client: TcpStream) -> std::io::Result<()> {
    loop {
        let (mut head, mut byte) = (Vec::new(), [0]);
        while !head.ends_with(b"\r\n\r\n") {
            client.read_exact(&mut byte)?;
            head.extend(byte);
        }
        let answer = match head.first() {
            Some(b'P') if head.starts_with(b"PUT") => loop {
                std::thread::park();
            },
            Some(b'P') => {
                "<InitiateMultipartUploadResult><Bucket>b</Bucket><Key>k</Key>\
                 <UploadId>u</UploadId></InitiateMultipartUploadResult>"
            }
            _ => {
                "<ListBucketResult><Name>b</Name><KeyCount>0</KeyCount>\
                 <IsTruncated>false</IsTruncated></ListBucketResult>"
            }
        };
        let status = if head.starts_with(b"HEAD") { "404 Not Found" } else { "200 OK" };
        let body = if head.starts_with(b"HEAD") { "" } else { answer };
        let length = body.len();
        write!(client, "HTTP/1.1 {status}\r\nContent-Length: {length}\r\n\r\n{body}")?;
    }
}

#[tokio::test]
async fn a_store_that_takes_nothing_is_not_waited_for() {
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
    let url = format!("http://{}", listener.local_addr().unwrap());
    std::thread::spawn(move || {
        for client in listener.incoming() {
            std::thread::spawn(move || serve_no_part(client?));
        }
    });
    // A part of 15 MiB is more than the system takes for a connection.
    let requests = ObjectRequests { part_size_mib: Some(15), ..impatient() };
    let store = at_url(&url, requests);
    let file = store.stage(id(), &path("a")).await.unwrap();
    let told = match file.write_at(0, Bytes::from(pattern(9, 15 * MIB + 1))).await {
        Ok(()) => file.sync().await,
        error => error,
    };
    let told = told.unwrap_err().to_string();
    assert!(told.contains("took no byte of the request for 1s"), "{told}");
}
