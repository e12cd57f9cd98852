//! The binding to the Connect runtime.

use crate::Fault;
use crate::call::Call;
use crate::services::Services;
use crate::wire::registry::{Handler, Registry};
use bytes::Bytes;
use connectrpc::dispatcher::{RequestStream, StreamingResult, UnaryResult};
use connectrpc::{
    CodecFormat, ConnectError, Dispatcher, EncodedBody, MethodDescriptor, Payload, RequestContext, Response,
};
use futures::{FutureExt, StreamExt};
use std::sync::Arc;

/// Hands requests from the Connect runtime to the registered methods.
pub struct Methods {
    registry: Arc<Registry>,
    services: Arc<Services>,
}

impl Methods {
    /// Serves the methods of `registry`.
    pub fn new(registry: Arc<Registry>, services: Arc<Services>) -> Self {
        Self { registry, services }
    }

    fn call(&self, context: &RequestContext) -> Call {
        Call::new(self.services.clone(), context.headers().clone())
    }
}

impl Dispatcher for Methods {
    fn lookup(&self, path: &str) -> Option<MethodDescriptor> {
        self.registry.method(path).map(|method| match method.handler {
            Handler::Unary(_) => MethodDescriptor::unary(method.no_side_effects),
            Handler::ServerStream(_) => MethodDescriptor::server_streaming(),
        })
    }

    fn call_unary(
        &self,
        path: &str,
        context: RequestContext,
        request: Payload,
        format: CodecFormat,
    ) -> UnaryResult {
        let Some(Handler::Unary(handler)) = self.registry.method(path).map(|method| &method.handler) else {
            return async_fault(wrong_kind(path));
        };
        let bytes = match request.encoded() {
            Ok(bytes) => bytes,
            Err(error) => return async move { Err(error) }.boxed(),
        };
        let answer = handler(self.call(&context), bytes, format);
        async move {
            match answer.await {
                Ok(bytes) => Ok(Response::new(EncodedBody::from(bytes))),
                Err(fault) => Err(error(fault)),
            }
        }
        .boxed()
    }

    fn call_server_streaming(
        &self,
        path: &str,
        context: RequestContext,
        request: Bytes,
        format: CodecFormat,
    ) -> StreamingResult {
        let Some(Handler::ServerStream(handler)) = self.registry.method(path).map(|method| &method.handler)
        else {
            return async_stream_fault(wrong_kind(path));
        };
        let answers = handler(self.call(&context), request, format);
        let answers = answers.map(|answer| answer.map(EncodedBody::from).map_err(error));
        async move { Ok(Response::stream(answers)) }.boxed()
    }

    fn call_client_streaming(
        &self,
        path: &str,
        _: RequestContext,
        _: RequestStream,
        _: CodecFormat,
    ) -> UnaryResult {
        async_fault(wrong_kind(path))
    }

    fn call_bidi_streaming(
        &self,
        path: &str,
        _: RequestContext,
        _: RequestStream,
        _: CodecFormat,
    ) -> StreamingResult {
        async_stream_fault(wrong_kind(path))
    }
}

/// A fault as the runtime knows it.
pub fn error(fault: Fault) -> ConnectError {
    ConnectError::new(fault.code, fault.message)
}

fn wrong_kind(path: &str) -> Fault {
    Fault::unimplemented(format!("there is no such method: {path}"))
}

fn async_fault(fault: Fault) -> UnaryResult {
    async { Err(error(fault)) }.boxed()
}

fn async_stream_fault(fault: Fault) -> StreamingResult {
    async { Err(error(fault)) }.boxed()
}
