//! A provider of OpenID Connect on loopback, which says whatever a test wants: what it publishes,
//! its keys, codes for people and the tokens behind them.

use std::collections::HashMap;
use std::io::{Read as _, Write as _};
use std::net::{TcpListener, TcpStream};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use aws_lc_rs::digest::{SHA256, digest};
use aws_lc_rs::rand::SystemRandom;
use aws_lc_rs::signature::{ECDSA_P256_SHA256_FIXED_SIGNING, EcdsaKeyPair, KeyPair as _};
use base64::Engine as _;
use base64::engine::general_purpose::{STANDARD, URL_SAFE_NO_PAD};
use entrepot_nouns::Env;
use serde_json::{Map, Value, json};

/// The client that it knows.
pub const CLIENT: &str = "entrepot";
/// The secret of that.
pub const CLIENT_SECRET: &str = "of the client";

/// A provider; it serves until the test ends.
pub struct Provider {
    /// As its documents name it.
    pub issuer: String,
    state: Arc<Mutex<State>>,
}

/// What a provider says.
pub struct State {
    /// Claims of the next tokens besides the usual ones, or in their place; null leaves one out.
    pub claims: Map<String, Value>,
    /// What the header of the next tokens names as the algorithm.
    pub algorithm: &'static str,
    /// How often its keys were read.
    pub keys_read: u32,
    issuer: String,
    env: Env,
    key: EcdsaKeyPair,
    key_number: u32,
    /// The number of the key that it publishes.
    published: Value,
    codes: HashMap<String, HashMap<String, String>>,
}

/// What a browser is sent back with.
#[derive(Clone, Debug)]
pub struct Returned {
    /// The address, without the query.
    pub redirect: String,
    /// As it was sent.
    pub state: String,
    /// For the token endpoint.
    pub code: String,
}

impl Provider {
    /// Begins to serve; tokens are issued by this clock.
    ///
    /// # Panics
    /// If no port is free.
    pub fn start(env: &Env) -> Provider {
        let listener = TcpListener::bind(("127.0.0.1", 0)).unwrap();
        let issuer = format!("http://{}", listener.local_addr().unwrap());
        let key = new_key();
        let published = jwk(&key, 1);
        let state = State {
            claims: Map::new(),
            algorithm: "ES256",
            keys_read: 0,
            issuer: issuer.clone(),
            env: env.clone(),
            key,
            key_number: 1,
            published,
            codes: HashMap::new(),
        };
        let state = Arc::new(Mutex::new(state));
        let serving = state.clone();
        std::thread::spawn(move || {
            for stream in listener.incoming().map_while(Result::ok) {
                // A client may go away.
                let _ = serve(stream, &serving);
            }
        });
        Provider { issuer, state }
    }

    /// What it says, to be changed.
    pub fn says(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Signs with another key from now on, which it does not publish yet.
    pub fn take_other_key(&self) {
        let mut state = self.says();
        state.key = new_key();
        state.key_number += 1;
    }

    /// Publishes the key that it signs with.
    pub fn publish_key(&self) {
        let mut state = self.says();
        state.published = jwk(&state.key, state.key_number);
    }

    /// What a browser is sent back with that was led to this address, where its person agrees.
    ///
    /// # Panics
    /// If the address is none of this provider, or lacks what it must have.
    pub fn agree(&self, address: &str) -> Returned {
        let (endpoint, query) = address.split_once('?').unwrap();
        assert_eq!(endpoint, format!("{}/authorize", self.issuer));
        let asked = fields(query);
        assert_eq!((&*asked["response_type"], &*asked["client_id"]), ("code", CLIENT));
        assert_eq!(asked["code_challenge_method"], "S256");
        assert!(asked["scope"].split(' ').any(|scope| scope == "openid"), "{asked:?}");
        let mut state = self.says();
        let code = format!("code-{}", state.codes.len());
        let (redirect, sent) = (asked["redirect_uri"].clone(), asked["state"].clone());
        state.codes.insert(code.clone(), asked);
        Returned { redirect, state: sent, code }
    }

    /// Forgets the code challenge of a code, so that no verifier fits it.
    pub fn spoil(&self, code: &str) {
        if let Some(asked) = self.says().codes.get_mut(code) {
            asked.insert("code_challenge".to_owned(), "another".to_owned());
        }
    }
}

impl State {
    fn answer(&mut self, request: &Request) -> (u16, Value) {
        let issuer = &self.issuer;
        match request.path.as_str() {
            "/.well-known/openid-configuration" => (
                200,
                json!({
                    "issuer": issuer,
                    "authorization_endpoint": format!("{issuer}/authorize"),
                    "token_endpoint": format!("{issuer}/token"),
                    "jwks_uri": format!("{issuer}/keys"),
                    "response_types_supported": ["code"],
                    "subject_types_supported": ["public"],
                    "id_token_signing_alg_values_supported": ["ES256"],
                }),
            ),
            "/keys" => {
                self.keys_read += 1;
                (200, json!({"keys": [self.published]}))
            }
            "/token" => match self.token(request) {
                Some(token) => {
                    (200, json!({"access_token": "a", "token_type": "Bearer", "id_token": token}))
                }
                None => (400, json!({"error": "invalid_grant"})),
            },
            _ => (404, json!({})),
        }
    }

    /// The token behind a code; each is good once, for the client and the verifier of its question.
    fn token(&mut self, request: &Request) -> Option<String> {
        let given = fields(&request.body);
        let asked = self.codes.remove(given.get("code")?)?;
        let verifier = digest(&SHA256, given.get("code_verifier")?.as_bytes());
        let is_client = request.authorization
            == format!("Basic {}", STANDARD.encode(format!("{CLIENT}:{}", "of+the+client")));
        let fits = asked["code_challenge"] == URL_SAFE_NO_PAD.encode(verifier)
            && asked["redirect_uri"] == *given.get("redirect_uri")?;
        if !fits || !is_client {
            return None;
        }
        let now = self.env.now().seconds();
        let mut claims = json!({
            "iss": self.issuer,
            "aud": CLIENT,
            "iat": now,
            "exp": now + 300,
            "nonce": asked["nonce"],
        });
        let claims = claims.as_object_mut()?;
        claims.extend(self.claims.clone());
        claims.retain(|_, value| !value.is_null());
        let header = json!({"alg": self.algorithm, "kid": self.key_number.to_string()});
        let encoded = |value: &str| URL_SAFE_NO_PAD.encode(value);
        let claims = Value::from(claims.clone()).to_string();
        let signed = format!("{}.{}", encoded(&header.to_string()), encoded(&claims));
        if self.algorithm == "none" {
            return Some(format!("{signed}."));
        }
        let signature = self.key.sign(&SystemRandom::new(), signed.as_bytes()).ok()?;
        Some(format!("{signed}.{}", URL_SAFE_NO_PAD.encode(signature)))
    }
}

fn new_key() -> EcdsaKeyPair {
    EcdsaKeyPair::generate(&ECDSA_P256_SHA256_FIXED_SIGNING).unwrap()
}

/// The public half (RFC 7518 §6.2.1).
fn jwk(key: &EcdsaKeyPair, number: u32) -> Value {
    let (x, y) = key.public_key().as_ref()[1..].split_at(32);
    json!({
        "kty": "EC",
        "crv": "P-256",
        "use": "sig",
        "kid": number.to_string(),
        "x": URL_SAFE_NO_PAD.encode(x),
        "y": URL_SAFE_NO_PAD.encode(y),
    })
}

/// One request of HTTP/1.1.
struct Request {
    path: String,
    authorization: String,
    body: String,
}

fn serve(mut stream: TcpStream, state: &Mutex<State>) -> std::io::Result<()> {
    let mut head = Vec::new();
    let mut byte = [0];
    while !head.ends_with(b"\r\n\r\n") {
        stream.read_exact(&mut byte)?;
        head.extend(byte);
    }
    let head = String::from_utf8_lossy(&head).into_owned();
    let field = |named: &str| {
        let pairs = head.lines().filter_map(|line| line.split_once(": "));
        let mut found = pairs.filter(|(name, _)| name.eq_ignore_ascii_case(named));
        found.next().map(|(_, value)| value.to_owned()).unwrap_or_default()
    };
    let mut body = vec![0; field("content-length").parse().unwrap_or_default()];
    stream.read_exact(&mut body)?;
    let request = Request {
        path: head.split(' ').nth(1).unwrap_or_default().to_owned(),
        authorization: field("authorization"),
        body: String::from_utf8_lossy(&body).into_owned(),
    };
    let (status, body) = state.lock().unwrap_or_else(PoisonError::into_inner).answer(&request);
    let body = body.to_string();
    write!(
        stream,
        "HTTP/1.1 {status} X\r\nContent-Type: application/json\r\nContent-Length: {}\r\n\
         Connection: close\r\n\r\n{body}",
        body.len()
    )
}

/// The fields of a query or a form.
fn fields(text: &str) -> HashMap<String, String> {
    let pairs = text.split('&').filter_map(|pair| pair.split_once('='));
    pairs.map(|(name, value)| (decoded(name), decoded(value))).collect()
}

fn decoded(text: &str) -> String {
    let (mut bytes, mut left) = (Vec::new(), text.bytes());
    while let Some(byte) = left.next() {
        bytes.push(match byte {
            b'+' => b' ',
            b'%' => {
                let digits = [left.next(), left.next()].map(Option::unwrap_or_default);
                let digits = std::str::from_utf8(&digits).unwrap_or_default();
                u8::from_str_radix(digits, 16).unwrap_or_default()
            }
            byte => byte,
        });
    }
    String::from_utf8_lossy(&bytes).into_owned()
}
