#pragma once
#include "model.hpp"

#include <string>
#include <vector>

/// What training reads and writes. Each throws std::runtime_error where a file cannot be.
namespace training {

std::string whole(const std::string& file);
void save(const parameters& all, const std::string& file);  ///< as .safetensors
void plot(const std::vector<double>& losses, const std::string& file);
void write_lines(const std::vector<double>& losses, const std::string& file);

}  // namespace training
