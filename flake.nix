# SPDX-License-Identifier: Apache-2.0
#
#     nix build             # ./result/bin/cep, ./result/lib/libcep.so.0, headers, manual, Python package
#     nix develop           # a shell to build and test in
#
# Not built by the project's own tests, which check its syntax only. `nix flake lock` pins nixpkgs.
{
  description = "CUDA Event Profiler: which rank of a training job is slow, in which phase, at which steps";

  inputs.nixpkgs.url = "github:NixOS/nixpkgs/nixos-24.11";

  outputs = { self, nixpkgs }:
    let
      version = "0.2.0";
      systems = [ "x86_64-linux" "aarch64-linux" ];
      forEachSystem = make: nixpkgs.lib.genAttrs systems (system: make nixpkgs.legacyPackages.${system});
      package = pkgs: pkgs.stdenv.mkDerivation {
        pname = "cep";
        inherit version;
        src = self;
        nativeBuildInputs = with pkgs; [ meson ninja pkg-config python3 ];
        buildInputs = with pkgs; [ cjson cli11 fmt simdjson zlib zstd python3 ];
        # glibc's FORTIFY_SOURCE level is chosen by meson.build.
        hardeningDisable = [ "fortify" "fortify3" ];
        mesonBuildType = "release";
        mesonFlags = [
          "-Dtools=enabled"
          "-Dtests=disabled"
          "-Dcuda=disabled"
          "-Drust=disabled"
          "-Djulia=disabled"
          "-Dpython.purelibdir=${placeholder "out"}/${pkgs.python3.sitePackages}"
          "-Dpython.platlibdir=${placeholder "out"}/${pkgs.python3.sitePackages}"
        ];
        # The package looks for the library in its own folder first.
        postInstall = ''
          mkdir -p $out/${pkgs.python3.sitePackages}/cep/lib
          ln -s $out/lib/libcep.so.0 $out/${pkgs.python3.sitePackages}/cep/lib/
        '';
        meta = {
          description = "CUDA Event Profiler";
          license = pkgs.lib.licenses.asl20;
          platforms = systems;
          mainProgram = "cep";
        };
      };
    in
    {
      packages = forEachSystem (pkgs: { default = package pkgs; });
      devShells = forEachSystem (pkgs: {
        default = pkgs.mkShell {
          inputsFrom = [ (package pkgs) ];
          packages = with pkgs; [
            gtest
            mandoc
            (python3.withPackages (python: [ python.pytest python.numpy ]))
          ];
        };
      });
    };
}
