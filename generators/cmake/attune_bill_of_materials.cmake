# attune_write_bill_of_materials(<file>): an SPDX 2.3 document of what attune was made with and of: libraries by their versions as this configuration
# found them, the compiler, and what of each is in what is installed. Two configurations of the same make the same file: its date is
# SOURCE_DATE_EPOCH's or the commit's.
function(attune_write_bill_of_materials file)
    set(given "$ENV{SOURCE_DATE_EPOCH}")
    set(created "${given}")
    if(given STREQUAL "")
        execute_process(COMMAND git -C "${attune_SOURCE_DIR}" log -1 --format=%ct OUTPUT_VARIABLE created OUTPUT_STRIP_TRAILING_WHITESPACE ERROR_QUIET RESULT_VARIABLE status)
        if(NOT status EQUAL 0)
            set(created 0)  # of no repository
        endif()
    endif()
    set(ENV{SOURCE_DATE_EPOCH} "${created}")
    string(TIMESTAMP created "%Y-%m-%dT%H:%M:%SZ" UTC)
    set(ENV{SOURCE_DATE_EPOCH} "${given}")
    file(STRINGS "${ATTUNE_DLPACK_INCLUDE}/dlpack/dlpack.h" dlpack REGEX "define DLPACK_((MAJOR|MINOR)_)?VERSION +[0-9]+")
    string(REGEX REPLACE "[^0-9;]" "" dlpack "${dlpack}")
    list(JOIN dlpack "." dlpack)
    string(REGEX REPLACE "^([0-9])0$" "0.\\1" dlpack "${dlpack}")  # before 1.0: 60 is 0.6

    set(packages "")
    set(relations "")
    # material(<name> <version> <license> <relation to attune> <what it is for>): nothing where there is no version, for then it was not needed.
    macro(material name version license relation purpose)
        if(NOT "${version}" STREQUAL "")
            string(REGEX REPLACE "[^A-Za-z0-9]" "-" id "SPDXRef-${name}")
            string(APPEND packages ",\n    {\"SPDXID\": \"${id}\", \"name\": \"${name}\", \"versionInfo\": \"${version}\", \"licenseDeclared\": \"${license}\", \
\"licenseConcluded\": \"${license}\", \"downloadLocation\": \"NOASSERTION\", \"copyrightText\": \"NOASSERTION\", \"filesAnalyzed\": false, \"comment\": \"${purpose}\"}")
            if("${relation}" MATCHES "_OF$")
                string(APPEND relations ",\n    {\"spdxElementId\": \"${id}\", \"relationshipType\": \"${relation}\", \"relatedSpdxElement\": \"SPDXRef-attune\"}")
            else()
                string(APPEND relations ",\n    {\"spdxElementId\": \"SPDXRef-attune\", \"relationshipType\": \"${relation}\", \"relatedSpdxElement\": \"${id}\"}")
            endif()
        endif()
    endmacro()
    material(DLPack "${dlpack}" Apache-2.0 STATIC_LINK "one header, compiled into the runtime")
    material(Halide "${Halide_VERSION}" MIT STATIC_LINK "its support library is in the runtime; its compiler is loaded by generators and not installed")
    material(Boost "${Boost_VERSION}" BSL-1.0 DEPENDS_ON "headers (Hana), of which applications compile some")
    if(TARGET attune_generators)
        material(fmt "${fmt_VERSION}" MIT STATIC_LINK "headers, compiled into the generators")
        material(nlohmann_json "${nlohmann_json_VERSION}" MIT STATIC_LINK "headers, compiled into the generators")
        material(CLI11 "${CLI11_VERSION}" BSD-3-Clause STATIC_LINK "headers, compiled into the generators")
    endif()
    material("${CMAKE_CXX_COMPILER_ID}" "${CMAKE_CXX_COMPILER_VERSION}" NOASSERTION BUILD_TOOL_OF "the compiler; its standard library is linked dynamically")
    material(CMake "${CMAKE_VERSION}" BSD-3-Clause BUILD_TOOL_OF "the build")

    string(UUID namespace NAMESPACE "6ba7b811-9dad-11d1-80b4-00c04fd430c8" NAME "attune ${attune_VERSION} ${created} ${packages}" TYPE SHA1)
    file(CONFIGURE OUTPUT "${file}" @ONLY CONTENT [[{
  "spdxVersion": "SPDX-2.3",
  "dataLicense": "CC0-1.0",
  "SPDXID": "SPDXRef-DOCUMENT",
  "name": "attune-@attune_VERSION@",
  "documentNamespace": "urn:uuid:@namespace@",
  "creationInfo": {"created": "@created@", "creators": ["Tool: attune-@attune_VERSION@"]},
  "packages": [
    {"SPDXID": "SPDXRef-attune", "name": "attune", "versionInfo": "@attune_VERSION@", "licenseDeclared": "Apache-2.0", "licenseConcluded": "Apache-2.0", "downloadLocation": "NOASSERTION", "copyrightText": "NOASSERTION", "filesAnalyzed": false}@packages@
  ],
  "relationships": [
    {"spdxElementId": "SPDXRef-DOCUMENT", "relationshipType": "DESCRIBES", "relatedSpdxElement": "SPDXRef-attune"}@relations@
  ]
}
]])
endfunction()
