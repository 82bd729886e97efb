//! Routes and their OpenAPI descriptions, put down together so that neither exists without the other.

use axum::routing::MethodRouter;
use schemars::JsonSchema;
use schemars::generate::{SchemaGenerator, SchemaSettings};
use serde_json::{Map, Value, json};
use utoipa::openapi::path::{HttpMethod, Operation, OperationBuilder, Parameter, ParameterBuilder, ParameterIn, Paths};
use utoipa::openapi::request_body::RequestBodyBuilder;
use utoipa::openapi::response::ResponseBuilder;
use utoipa::openapi::{Content, InfoBuilder, OpenApiBuilder, Ref, Required};
use utoipa_axum::router::OpenApiRouter;

use crate::ServerState;

const JSON: &str = "application/json";

/// A router that describes itself. Shapes come from the same types that are sent and read.
pub(crate) struct Documented {
    router: OpenApiRouter<ServerState>,
    shapes: SchemaGenerator,
    extra: Map<String, Value>,
}

/// What a route takes and gives.
pub(crate) struct Described {
    operation: OperationBuilder,
}

impl Documented {
    pub(crate) fn new() -> Self {
        let info = InfoBuilder::new()
            .title("RoboCo")
            .version(env!("CARGO_PKG_VERSION"))
            .description(Some("The operator's API of a company of coding agents."))
            .build();
        let settings = SchemaSettings::draft2020_12().with(|settings| settings.definitions_path = "/components/schemas".into());
        Self {
            router: OpenApiRouter::with_openapi(OpenApiBuilder::new().info(info).build()),
            shapes: settings.into_generator(),
            extra: Map::new(),
        }
    }

    /// Adds a route.
    pub(crate) fn route(mut self, method: HttpMethod, path: &str, described: Described, handler: MethodRouter<ServerState>) -> Self {
        let mut operation = described.operation;
        for name in path.split(['{', '}']).skip(1).step_by(2) {
            let parameter: Parameter =
                ParameterBuilder::new().name(name).parameter_in(ParameterIn::Path).required(Required::True).schema(Some(text())).build();
            operation = operation.parameter(parameter);
        }
        let mut paths = Paths::new();
        let operation: Operation = operation.build();
        paths.add_path_operation(path, vec![method], operation);
        self.router = self.router.routes((Vec::new(), paths, handler));
        self
    }

    /// A route that answers with this type.
    pub(crate) fn gives<T: JsonSchema>(&mut self, summary: &str, status: &str) -> Described {
        let shape = self.shape::<T>();
        self.gives_shape(summary, status, shape)
    }

    /// The same for a shape with a name of its own.
    pub(crate) fn gives_shape(&mut self, summary: &str, status: &str, shape: Ref) -> Described {
        let answer = ResponseBuilder::new().description("Done.").content(JSON, Content::new(Some(shape))).build();
        let problem = self.name("Problem", problem());
        let problem = ResponseBuilder::new().description("Refused, or failed.").content(JSON, Content::new(Some(problem))).build();
        let operation = OperationBuilder::new().summary(Some(summary)).response(status, answer).response("default", problem);
        Described { operation }
    }

    /// The shape of a type, by reference.
    pub(crate) fn shape<T: JsonSchema>(&mut self) -> Ref {
        self.shapes.subschema_for::<T>();
        Ref::new(format!("#/components/schemas/{}", T::schema_name()))
    }

    /// A shape under a name of its own.
    pub(crate) fn name(&mut self, name: &str, shape: Value) -> Ref {
        self.extra.insert(name.to_owned(), shape);
        Ref::new(format!("#/components/schemas/{name}"))
    }

    /// The router and the document.
    pub(crate) fn finish(mut self) -> (axum::Router<ServerState>, Value) {
        let (router, document) = self.router.split_for_parts();
        let mut document = serde_json::to_value(document).unwrap_or_default();
        let mut shapes = self.shapes.take_definitions(true);
        shapes.append(&mut self.extra);
        document["components"] = json!({
            "schemas": shapes,
            "securitySchemes": { "person": { "type": "http", "scheme": "bearer" } },
        });
        document["security"] = json!([{ "person": [] }]);
        (router, document)
    }
}

impl Described {
    /// It reads a body of this shape.
    pub(crate) fn takes(mut self, shape: Ref) -> Self {
        let body = RequestBodyBuilder::new().content(JSON, Content::new(Some(shape))).required(Some(Required::True)).build();
        self.operation = self.operation.request_body(Some(body));
        self
    }

    /// It reads these optional keys from the query.
    pub(crate) fn asks(mut self, keys: &[(&str, &str)]) -> Self {
        for (name, description) in keys {
            let parameter = ParameterBuilder::new()
                .name(*name)
                .parameter_in(ParameterIn::Query)
                .description(Some(*description))
                .schema(Some(text()))
                .required(Required::False);
            self.operation = self.operation.parameter(parameter.build());
        }
        self
    }

    /// Nobody needs a token for it.
    pub(crate) fn open(mut self) -> Self {
        self.operation = self.operation.securities(Some([utoipa::openapi::security::SecurityRequirement::default()]));
        self
    }
}

fn text() -> utoipa::openapi::schema::Object {
    utoipa::openapi::schema::Object::with_type(utoipa::openapi::schema::Type::String)
}

fn problem() -> Value {
    let text = json!({ "type": "string" });
    json!({ "type": "object", "required": ["error"], "properties": { "error": {
        "type": "object",
        "required": ["code", "message", "remediate", "field", "missing", "field_hints", "details", "correlation_id"],
        "properties": {
            "code": text, "message": text, "remediate": { "type": ["string", "null"] }, "field": { "type": ["string", "null"] },
            "missing": { "type": "array", "items": text }, "field_hints": { "type": "object", "additionalProperties": text },
            "details": { "type": "object" }, "correlation_id": text,
        },
    }}})
}
