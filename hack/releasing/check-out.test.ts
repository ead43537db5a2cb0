// SPDX-License-Identifier: Apache-2.0
import { existsSync, mkdirSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { dirname, join } from "node:path";
import { expect, test } from "vitest";
import { checkOut } from "./check-out.ts";
import { git } from "./history.ts";
import { ARCHITECTURES, type Release } from "./release.ts";

test("a tree has the files of the commit and the libraries, and retains its cache without compiled files", () => {
  const directory = mkdtempSync(join(tmpdir(), "check-out-"));
  try {
    const repository = join(directory, "repository");
    const write = (path: string, text: string): void => {
      mkdirSync(join(repository, path, ".."), { recursive: true });
      writeFileSync(join(repository, path), text);
    };
    git(directory, "init", "--quiet", "repository");
    write(".gitignore", "dist/\nnode_modules/\n");
    write("packages/cli/src/main.ts", "committed");
    git(repository, "add", "--all");
    const identity = ["-c", "user.name=A", "-c", "user.email=a@example.invalid"];
    git(repository, ...identity, "commit", "--quiet", "--message", "a");
    write("packages/cli/dist/old.js", "of an earlier build");
    write("packages/cli/node_modules/ws/package.json", "library");
    write("node_modules/.bin/tsc", "program");
    const release: Release = {
      version: "0.2.0",
      commit: git(repository, "rev-parse", "HEAD").trim(),
      architectures: ARCHITECTURES,
      registry: "",
      url: "",
      epoch: 0,
      output: "",
      work: join(directory, "work"),
    };
    const cached = join(checkOut(repository, release), ".cache/a");
    writeFileSync(cached, "cached");
    const compiled = join(directory, "work/cache/cross/arm64/packages/adapters/os/build/os.node");
    mkdirSync(dirname(compiled), { recursive: true });
    writeFileSync(compiled, "of an earlier commit");
    const tree = checkOut(repository, release);
    expect(readFileSync(join(tree, "packages/cli/src/main.ts"), "utf8")).toBe("committed");
    expect(existsSync(join(tree, "packages/cli/dist"))).toBe(false);
    expect(readFileSync(join(tree, "packages/cli/node_modules/ws/package.json"), "utf8")).toBe(
      "library",
    );
    expect(readFileSync(join(tree, "node_modules/.bin/tsc"), "utf8")).toBe("program");
    expect(readFileSync(cached, "utf8")).toBe("cached");
    expect(existsSync(compiled)).toBe(false);
  } finally {
    rmSync(directory, { recursive: true });
  }
});
