// An AOTInductor package that calls operators of attune, without Python: run_package LIBRARY LIBRARY PACKAGE FOLDER.
// Reads q, k, v (2, 4, 100, 64) and slopes (4) as FOLDER/<name>.bin, and writes FOLDER/out.bin.
#include <ATen/ops/from_file.h>
#include <c10/core/InferenceMode.h>
#include <torch/csrc/inductor/aoti_package/model_package_loader.h>

#include <dlfcn.h>

#include <fstream>
#include <iostream>
#include <string>
#include <vector>

int main(int count, char** words) {
    if (count != 5) return 2;
    for (const char* library : {words[1], words[2]})  // which define the operators
        if (!dlopen(library, RTLD_NOW)) {
            std::cerr << dlerror() << "\n";
            return 1;
        }
    const std::string folder = words[4];
    const c10::InferenceMode inference;
    std::vector<at::Tensor> inputs;
    for (const char* name : {"q", "k", "v"})
        inputs.push_back(
            at::from_file(folder + "/" + name + ".bin", false, 2 * 4 * 100 * 64, at::kFloat).view({2, 4, 100, 64}));
    inputs.push_back(at::from_file(folder + "/slopes.bin", false, 4, at::kFloat));
    torch::inductor::AOTIModelPackageLoader package(words[3]);
    const at::Tensor out = package.run(inputs).at(0).contiguous();
    std::ofstream(folder + "/out.bin", std::ios::binary)
        .write(static_cast<const char*>(out.const_data_ptr()), static_cast<std::streamsize>(out.nbytes()));
    return 0;
}
