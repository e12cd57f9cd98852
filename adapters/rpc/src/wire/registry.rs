//! The methods that are served, by path.

use crate::Fault;
use crate::call::Call;
use crate::wire::codec;
use bytes::Bytes;
use connectrpc::CodecFormat;
use flyte_proto::{DESCRIPTOR_POOL, Validate};
use futures::future::BoxFuture;
use futures::stream::BoxStream;
use futures::{FutureExt, Stream, StreamExt};
use prost::{Message, Name};
use std::collections::{BTreeMap, BTreeSet};
use std::future::Future;
use std::panic::AssertUnwindSafe;

type Unary = dyn Fn(Call, Bytes, CodecFormat) -> BoxFuture<'static, Result<Bytes, Fault>> + Send + Sync;
type ServerStream =
    dyn Fn(Call, Bytes, CodecFormat) -> BoxStream<'static, Result<Bytes, Fault>> + Send + Sync;

/// What answers a method.
pub enum Handler {
    /// One answer.
    Unary(Box<Unary>),
    /// Any number of answers.
    ServerStream(Box<ServerStream>),
}

/// One method.
pub struct Method {
    /// What answers it.
    pub handler: Handler,
    /// Whether it only reads, so that Connect clients may use GET.
    pub no_side_effects: bool,
}

/// All methods. Paths have the form `package.Service/Method`.
#[derive(Default)]
pub struct Registry {
    methods: BTreeMap<String, Method>,
    services: BTreeSet<String>,
}

impl Registry {
    /// The method at this path.
    pub fn method(&self, path: &str) -> Option<&Method> {
        self.methods.get(path)
    }

    /// Whether this service has any method here.
    pub fn has_service(&self, service: &str) -> bool {
        self.services.contains(service)
    }

    /// Serves a method with one answer.
    pub fn unary<Req, Res, F, Fut>(&mut self, path: &str, handler: F)
    where
        Req: Message + Name + Default + Validate,
        Res: Message + Name,
        F: Fn(Call, Req) -> Fut + Send + Sync + Clone + 'static,
        Fut: Future<Output = Result<Res, Fault>> + Send,
    {
        let handler = Handler::Unary(Box::new(move |call, bytes, format| {
            let handler = handler.clone();
            let answer = async move {
                let request = codec::decode::<Req>(&bytes, format)?;
                drop(bytes);
                codec::encode(&handler(call, request).await?, format)
            };
            AssertUnwindSafe(answer)
                .catch_unwind()
                .map(|answer| answer.unwrap_or_else(|_| Err(panicked())))
                .boxed()
        }));
        self.insert(path, handler);
    }

    /// Serves a method with a stream of answers.
    pub fn server_stream<Req, Res, F, S>(&mut self, path: &str, handler: F)
    where
        Req: Message + Name + Default + Validate,
        Res: Message + Name,
        F: Fn(Call, Req) -> S + Send + Sync + 'static,
        S: Stream<Item = Result<Res, Fault>> + Send + 'static,
    {
        let handler = Handler::ServerStream(Box::new(move |call, bytes, format| {
            let request = match codec::decode::<Req>(&bytes, format) {
                Ok(request) => request,
                Err(fault) => return futures::stream::once(async { Err(fault) }).boxed(),
            };
            let answers = handler(call, request)
                .map(move |answer| answer.and_then(|message| codec::encode(&message, format)));
            AssertUnwindSafe(answers)
                .catch_unwind()
                .map(|answer| answer.unwrap_or_else(|_| Err(panicked())))
                .boxed()
        }));
        self.insert(path, handler);
    }

    /// Serves the method at `path` under another path too.
    pub fn alias<Req, Res, F, Fut>(&mut self, path: &str, handler: F)
    where
        Req: Message + Name + Default + Validate,
        Res: Message + Name,
        F: Fn(Call, Req) -> Fut + Send + Sync + Clone + 'static,
        Fut: Future<Output = Result<Res, Fault>> + Send,
    {
        self.unary(path, handler);
        if let Some(method) = self.methods.get_mut(path) {
            method.no_side_effects = true;
        }
    }

    /// Answers every method of the schema that nothing serves with UNIMPLEMENTED and a sentence.
    pub fn refuse_the_rest(&mut self) {
        for service in DESCRIPTOR_POOL.services() {
            for method in service.methods() {
                let path = format!("{}/{}", service.full_name(), method.name());
                if self.methods.contains_key(&path) {
                    continue;
                }
                let fault = Fault::unimplemented(format!(
                    "{path} is not implemented by this version of flyte-manager"
                ));
                let handler = if method.is_server_streaming() {
                    Handler::ServerStream(Box::new(move |_, _, _| {
                        let fault = fault.clone();
                        futures::stream::once(async { Err(fault) }).boxed()
                    }))
                } else {
                    Handler::Unary(Box::new(move |_, _, _| {
                        let fault = fault.clone();
                        async { Err(fault) }.boxed()
                    }))
                };
                self.insert(&path, handler);
            }
        }
    }

    fn insert(&mut self, path: &str, handler: Handler) {
        if let Some((service, _)) = path.split_once('/') {
            self.services.insert(service.to_string());
        }
        self.methods.insert(path.to_string(), Method { handler, no_side_effects: only_reads(path) });
    }
}

/// Whether the schema says that the method at this path has no side effects.
fn only_reads(path: &str) -> bool {
    let Some((service, method)) = path.split_once('/') else { return false };
    DESCRIPTOR_POOL
        .get_service_by_name(service)
        .and_then(|service| service.methods().find(|found| found.name() == method))
        .and_then(|method| method.method_descriptor_proto().options.clone())
        .is_some_and(|options| {
            options.idempotency_level() == prost_types::method_options::IdempotencyLevel::NoSideEffects
        })
}

/// A handler's panic ends this one call. Its text is not sent: it may hold what another client sent.
fn panicked() -> Fault {
    tracing::error!("a handler panicked; the call is answered with INTERNAL");
    Fault::internal("the server failed while it worked on this request; its log has the details")
}
