//! The same verbs and tools as an MCP server over Streamable HTTP, one endpoint per run. There are no sessions to lose: every request brings
//! its token, is answered with JSON, and finds the same company behind it after a restart.

use std::borrow::Cow;
use std::sync::Arc;

use axum::Router;
use axum::extract::{Path, Request, State};
use axum::response::{IntoResponse, Response};
use axum::routing::post;
use axum::{Json, body::Body};
use http::request::Parts;
use http::{HeaderName, HeaderValue, StatusCode};
use http_body_util::Full;
use rmcp::model::{
    CallToolRequestParams, CallToolResponse, ErrorData, Implementation, JsonObject, ListToolsResult, PaginatedRequestParams,
    ProtocolVersion, ServerCapabilities, ServerConfig, Tool,
};
use rmcp::service::RequestContext;
use rmcp::transport::streamable_http_server::session::never::NeverSessionManager;
use rmcp::transport::{StreamableHttpServerConfig, StreamableHttpService};
use rmcp::{RoleServer, ServerHandler};
use roboco_domain::decide::standard_rules;
use roboco_domain::id::SpawnId;
use roboco_domain::limits;
use roboco_domain::rejection::{Kind, Rejection, Remedy};
use roboco_domain::role::Role;
use roboco_domain::verb::Verb;
use serde::Deserialize;
use serde_json::{Value, json};
use uuid::Uuid;

use crate::Gateway;
use crate::caller::Caller;
use crate::dispatch::{Arguments, Incoming};
use crate::problem::{Problem, stamp};
use crate::routes::{read, wrong_method};

const SESSION: HeaderName = HeaderName::from_static("mcp-session-id");
/// JSON-RPC: there is no such method.
const NO_SUCH_METHOD: i64 = -32601;
/// JSON-RPC: this is no request.
const NO_REQUEST: i64 = -32700;

type Service = StreamableHttpService<Door, NeverSessionManager>;

/// The tools of a role, in the order of the registry.
pub(crate) fn tools(role: Role) -> Vec<Tool> {
    granted(role)
        .map(|verb| {
            let schema = match verb.schema() {
                Value::Object(map) => map,
                _ => JsonObject::new(),
            };
            Tool::new(verb.as_str(), verb.help(), Arc::new(schema))
        })
        .collect()
}

fn granted(role: Role) -> impl Iterator<Item = Verb> {
    standard_rules().granted(role).into_iter().filter(|verb| verb.is_flow() || verb.is_do())
}

fn service(gateway: &Gateway) -> Service {
    let door = Door { gateway: gateway.clone() };
    let config = StreamableHttpServerConfig::default()
        .with_legacy_session_mode(false)
        .with_json_response(true)
        .with_max_request_body_bytes(limits::BODY_BYTES)
        // Who may speak to this server is decided by the listener and the token.
        .disable_allowed_hosts();
    StreamableHttpService::new(move || Ok(door.clone()), Arc::new(NeverSessionManager::default()), config)
}

#[derive(Clone)]
struct Endpoint {
    gateway: Gateway,
    service: Service,
}

pub(crate) fn router(gateway: Gateway) -> Router {
    let service = service(&gateway);
    Router::new().route("/mcp/{spawn}", post(endpoint).fallback(wrong_method)).with_state(Endpoint { gateway, service })
}

/// What must be known of a message before the server reads it.
#[derive(Deserialize)]
struct Peek<'a> {
    #[serde(borrow)]
    method: Option<Cow<'a, str>>,
    id: Option<Value>,
}

async fn endpoint(State(endpoint): State<Endpoint>, Path(spawn): Path<String>, request: Request) -> Response {
    let (mut parts, body) = request.into_parts();
    let caller = match endpoint.gateway.identify(&parts.headers) {
        Ok(caller) => caller,
        Err(problem) => return problem.into_response(),
    };
    let correlation = caller.correlation;
    if spawn.parse() != Ok(caller.actor.spawn) {
        let message = "this endpoint belongs to another run";
        let remedy = format!("use /mcp/{}", caller.actor.spawn);
        return Problem::new(StatusCode::FORBIDDEN, "not_authorized", message, remedy, correlation).into_response();
    }
    let bytes = match read(&parts.headers, body, correlation).await {
        Ok(bytes) => bytes,
        Err(problem) => return problem.into_response(),
    };
    let Ok(peek) = serde_json::from_slice::<Peek<'_>>(&bytes) else {
        return (StatusCode::BAD_REQUEST, Json(error(&Value::Null, NO_REQUEST, "the body is no JSON-RPC message"))).into_response();
    };
    let opens = peek.method.as_deref() == Some("initialize");
    // Clients of newer revisions ask for this first and fall back to `initialize` when it is not there. Answering it would select the
    // revision without a handshake, whose other requirements clients do not meet alike yet.
    if let (Some("server/discover"), Some(id)) = (peek.method.as_deref(), &peek.id) {
        return Json(error(id, NO_SUCH_METHOD, "server/discover")).into_response();
    }
    parts.extensions.insert(caller);
    let mut response = endpoint.service.handle(Request::from_parts(parts, Full::new(bytes))).await.map(Body::new);
    stamp(response.headers_mut(), correlation);
    // Nothing is kept under this name: a client counts its messages anew in every session, and repetitions are told by session and number.
    if opens && let Ok(session) = HeaderValue::try_from(Uuid::now_v7().to_string()) {
        response.headers_mut().insert(SESSION, session);
    }
    response
}

fn error(id: &Value, code: i64, message: &str) -> Value {
    json!({ "jsonrpc": "2.0", "id": id, "error": { "code": code, "message": message } })
}

/// The server behind every endpoint; who calls comes with each request.
#[derive(Debug, Clone)]
struct Door {
    gateway: Gateway,
}

impl Door {
    fn caller(context: &RequestContext<RoleServer>) -> Result<(&Caller, &Parts), ErrorData> {
        context
            .extensions
            .get::<Parts>()
            .and_then(|parts| parts.extensions.get::<Caller>().map(|caller| (caller, parts)))
            .ok_or_else(|| ErrorData::internal_error("the request lost its caller", None))
    }
}

impl ServerHandler for Door {
    fn get_info(&self) -> ServerConfig {
        ServerConfig::new(ServerCapabilities::builder().enable_tools().build())
            .with_server_info(Implementation::new("roboco", env!("CARGO_PKG_VERSION")))
            .with_instructions(
                "The tools of your role in the company. Every answer is one JSON object: `next` says what to call next; when `error` is set, \
                 do what `remediate` says instead of repeating the call.",
            )
    }

    fn supported_protocol_versions(&self) -> Cow<'static, [ProtocolVersion]> {
        Cow::Borrowed(ProtocolVersion::known_up_to(&ProtocolVersion::V_2025_11_25))
    }

    async fn list_tools(
        &self,
        _page: Option<PaginatedRequestParams>,
        context: RequestContext<RoleServer>,
    ) -> Result<ListToolsResult, ErrorData> {
        let (caller, _) = Self::caller(&context)?;
        let tools = self.gateway.inner.tools.get(&caller.actor.role).cloned().unwrap_or_default();
        Ok(ListToolsResult::with_all_items(tools))
    }

    async fn call_tool(&self, call: CallToolRequestParams, context: RequestContext<RoleServer>) -> Result<CallToolResponse, ErrorData> {
        let (caller, parts) = Self::caller(&context)?;
        let role = caller.actor.role;
        let Some(verb) = granted(role).find(|verb| verb.as_str() == call.name) else {
            let known = granted(role).map(|verb| verb.as_str()).collect::<Vec<_>>().join(", ");
            let asked: String = call.name.chars().take(60).collect();
            let remedy = Remedy::tell(format!("your tools are {known}"));
            let rejection = Rejection::new(Kind::NotFound, format!("{asked:?} is not among the tools of the role {role}"), remedy);
            let reply = self.gateway.refusal(&caller.actor, caller.correlation, None, &rejection);
            return Ok(reply.into_tool_result().into());
        };
        let key = caller.key.clone().unwrap_or_else(|| {
            let session = parts.headers.get(&SESSION).and_then(|value| value.to_str().ok()).unwrap_or("none");
            let session: String = session.chars().take(100).collect();
            format!("mcp:{session}:{}", context.id)
        });
        let incoming = Incoming {
            actor: caller.actor.clone(),
            verb,
            arguments: Arguments::Json(call.arguments.map_or(Value::Null, Value::Object)),
            correlation: caller.correlation,
            key: Some(key),
        };
        Ok(self.gateway.dispatch(incoming).await.into_tool_result().into())
    }
}

/// The address of a run's endpoint below the door.
impl Gateway {
    /// The path of a run's MCP endpoint.
    pub fn mcp_path(spawn: SpawnId) -> String {
        format!("/mcp/{spawn}")
    }
}
