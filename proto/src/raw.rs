//! Messages that pass through with all their bytes.

use std::fmt;
use std::hash::{Hash, Hasher};
use std::marker::PhantomData;

use bytes::{Buf, BufMut, Bytes};
use prost::encoding::{DecodeContext, WireType, encode_key};
use prost::{DecodeError, Message};

/// How deep groups (a retired way of nesting) may be nested in an unread message.
const GROUP_DEPTH_MAX: usize = 100;

/// A message of type `M`, kept as the bytes that it came in.
///
/// It encodes to the very bytes that it was decoded from, so fields that `M` doesn't declare survive, in their order.
/// [`decode`](Self::decode) reads it as an `M`; `Raw::from(m)` makes one. Two are equal if their bytes are.
///
/// Decoding a message that contains a `Raw` checks only that the bytes are a well-formed sequence of fields. That they
/// make an `M` shows in `decode`, and in validation, which reports bytes that don't as a violation.
pub struct Raw<M> {
    bytes: Vec<u8>,
    of: PhantomData<fn() -> M>,
}

impl<M> Raw<M> {
    /// Takes bytes that encode an `M`; nothing is checked.
    pub fn from_bytes(bytes: impl Into<Vec<u8>>) -> Self {
        Self { bytes: bytes.into(), of: PhantomData }
    }

    /// The bytes of the message.
    pub fn as_bytes(&self) -> &[u8] {
        &self.bytes
    }

    /// The bytes of the message, without a copy.
    pub fn into_bytes(self) -> Bytes {
        self.bytes.into()
    }
}

impl<M: Message + Default> Raw<M> {
    /// Reads the message; fails if the bytes aren't an `M`. Fields that `M` doesn't declare aren't in the result.
    pub fn decode(&self) -> Result<M, DecodeError> {
        M::decode(self.bytes.as_slice())
    }
}

impl<M: Message> From<M> for Raw<M> {
    fn from(message: M) -> Self {
        Self::from_bytes(message.encode_to_vec())
    }
}

impl<M: Message> From<&M> for Raw<M> {
    fn from(message: &M) -> Self {
        Self::from_bytes(message.encode_to_vec())
    }
}

impl<M> Message for Raw<M> {
    fn encode_raw(&self, buf: &mut impl BufMut) {
        buf.put_slice(&self.bytes);
    }

    /// Appends the field as it came. A message that is given in several pieces is the concatenation of them, which is
    /// how protobuf defines their merge.
    fn merge_field(
        &mut self,
        tag: u32,
        wire_type: WireType,
        buf: &mut impl Buf,
        _ctx: DecodeContext,
    ) -> Result<(), DecodeError> {
        encode_key(tag, wire_type, &mut self.bytes);
        copy_value(tag, wire_type, buf, &mut self.bytes)
    }

    fn encoded_len(&self) -> usize {
        self.bytes.len()
    }

    fn clear(&mut self) {
        self.bytes.clear();
    }
}

/// Moves one value, whose key was just read, from `buf` to `out`.
fn copy_value(
    tag: u32,
    wire_type: WireType,
    buf: &mut impl Buf,
    out: &mut Vec<u8>,
) -> Result<(), DecodeError> {
    match wire_type {
        WireType::Varint => copy_varint(buf, out).map(|_| ()),
        WireType::ThirtyTwoBit => copy_bytes(4, buf, out),
        WireType::SixtyFourBit => copy_bytes(8, buf, out),
        WireType::LengthDelimited => {
            let len = copy_varint(buf, out)?;
            copy_bytes(len, buf, out)
        }
        WireType::StartGroup => copy_group(tag, buf, out),
        WireType::EndGroup => Err(malformed("an end of a group without a start")),
    }
}

/// Moves the rest of a group, its end included.
fn copy_group(tag: u32, buf: &mut impl Buf, out: &mut Vec<u8>) -> Result<(), DecodeError> {
    let mut open = vec![tag];
    while let Some(innermost) = open.last().copied() {
        if !buf.has_remaining() {
            return Err(malformed("a group without an end"));
        }
        let (tag, wire_type) = prost::encoding::decode_key(buf)?;
        match wire_type {
            WireType::EndGroup if tag == innermost => {
                encode_key(tag, wire_type, out);
                open.pop();
            }
            WireType::StartGroup if open.len() == GROUP_DEPTH_MAX => {
                return Err(malformed("groups nested too deep"));
            }
            WireType::StartGroup => {
                encode_key(tag, wire_type, out);
                open.push(tag);
            }
            _ => {
                encode_key(tag, wire_type, out);
                copy_value(tag, wire_type, buf, out)?;
            }
        }
    }
    Ok(())
}

/// Moves a varint byte by byte, so that one that is longer than need be stays as it is.
fn copy_varint(buf: &mut impl Buf, out: &mut Vec<u8>) -> Result<u64, DecodeError> {
    let mut value = 0_u64;
    for shift in (0..70).step_by(7) {
        if !buf.has_remaining() {
            break;
        }
        let byte = buf.get_u8();
        out.push(byte);
        // The tenth byte holds the one bit that is left of 64; more bits are an overflow.
        if shift == 63 && byte > 1 {
            break;
        }
        value |= u64::from(byte & 0x7f) << shift;
        if byte < 0x80 {
            return Ok(value);
        }
    }
    Err(malformed("an invalid varint"))
}

fn copy_bytes(len: u64, buf: &mut impl Buf, out: &mut Vec<u8>) -> Result<(), DecodeError> {
    match usize::try_from(len) {
        Ok(len) if len <= buf.remaining() => {
            out.put(buf.take(len));
            Ok(())
        }
        _ => Err(malformed("a field longer than its message")),
    }
}

fn malformed(what: &'static str) -> DecodeError {
    #[expect(deprecated, reason = "prost offers no other way to make one")]
    DecodeError::new(what)
}

impl<M> Default for Raw<M> {
    fn default() -> Self {
        Self::from_bytes(Vec::new())
    }
}

impl<M> Clone for Raw<M> {
    fn clone(&self) -> Self {
        Self::from_bytes(self.bytes.clone())
    }
}

impl<M> PartialEq for Raw<M> {
    fn eq(&self, other: &Self) -> bool {
        self.bytes == other.bytes
    }
}

impl<M> Eq for Raw<M> {}

impl<M> Hash for Raw<M> {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.bytes.hash(state);
    }
}

/// Shows the message if it can be read, else its bytes.
impl<M: Message + Default + fmt::Debug> fmt::Debug for Raw<M> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.decode() {
            Ok(message) => f.debug_tuple("Raw").field(&message).finish(),
            Err(_) => f.debug_tuple("Raw").field(&self.bytes).finish(),
        }
    }
}
