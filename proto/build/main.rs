//! Compiles the `.proto` files into Rust: messages, gRPC clients and validation.
//!
//! Nothing outside of this package is needed: the files are parsed by `protox`, not by an installed `protoc`.

mod exceptions;
mod names;
mod raw;
mod rules;
mod validation;

use std::error::Error;
use std::path::{Path, PathBuf};
use std::{env, fs};

use prost_reflect::DescriptorPool;
use prost_types::FileDescriptorSet;

/// The directories, below this package, that hold `.proto` files.
const ROOTS: [&str; 3] = ["buf", "flyteidl2", "google"];

fn main() -> Result<(), Box<dyn Error>> {
    println!("cargo:rerun-if-changed=build");
    let mut files = Vec::new();
    for root in ROOTS {
        println!("cargo:rerun-if-changed={root}");
        collect(Path::new(root), &mut files)?;
    }
    files.sort();

    let mut compiler = protox::Compiler::new(["."])?;
    compiler.include_imports(true);
    compiler.open_files(&files)?;

    let out = PathBuf::from(env::var("OUT_DIR")?);
    fs::write(out.join("descriptors.binpb"), compiler.encode_file_descriptor_set())?;
    generate_types(compiler.file_descriptor_set())?;
    let pool: DescriptorPool = compiler.descriptor_pool();
    fs::write(out.join("validation.rs"), validation::generate(&pool))?;
    Ok(())
}

/// Adds every `.proto` file below `dir` to `files`.
fn collect(dir: &Path, files: &mut Vec<PathBuf>) -> std::io::Result<()> {
    for entry in fs::read_dir(dir)? {
        let path = entry?.path();
        if path.is_dir() {
            collect(&path, files)?;
        } else if path.extension().is_some_and(|extension| extension == "proto") {
            files.push(path);
        }
    }
    Ok(())
}

/// Writes the message types and the gRPC clients, with `include.rs` to pull them in.
fn generate_types(mut set: FileDescriptorSet) -> std::io::Result<()> {
    // Validation options are only read by this build.
    set.file.retain(|file| file.package() != "buf.validate");
    for file in &mut set.file {
        drop_deprecation(file);
    }
    let raw_types = raw::redirect(&mut set);

    let mut config = prost_build::Config::new();
    config.btree_map(["."]).bytes(["."]).enable_type_names().include_file("include.rs").service_generator(
        tonic_prost_build::configure().build_server(false).build_transport(false).service_generator(),
    );
    for (proto_path, rust_path) in raw_types {
        config.extern_path(proto_path, rust_path);
    }
    config.compile_fds(set)
}

/// Unmarks deprecated fields and methods.
///
/// A server must still read the fields that old clients send, so a warning at each use would only be noise. The
/// published descriptors keep the marks.
fn drop_deprecation(file: &mut prost_types::FileDescriptorProto) {
    fn in_message(message: &mut prost_types::DescriptorProto) {
        for field in &mut message.field {
            if let Some(options) = &mut field.options {
                options.deprecated = None;
            }
        }
        message.nested_type.iter_mut().for_each(in_message);
    }
    file.message_type.iter_mut().for_each(in_message);
    for service in &mut file.service {
        for method in &mut service.method {
            if let Some(options) = &mut method.options {
                options.deprecated = None;
            }
        }
    }
}
