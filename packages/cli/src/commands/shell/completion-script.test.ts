// SPDX-License-Identifier: Apache-2.0
// Bash completion, with a fake program that prints its arguments.
import { spawnSync } from "node:child_process";
import { expect, test } from "vitest";
import { COMMAND_LINE } from "../table.ts";
import { printBashCompletion } from "./completion-script.ts";

const STUB = 'patchbay() { echo "asked:$(IFS=,; echo "$*")"; }';

/** Completions of the last word. */
function offered(...words: readonly string[]): readonly string[] {
  const line = words.map((word) => `'${word}'`).join(" ");
  const script = `${STUB}
${printBashCompletion(COMMAND_LINE)}
COMP_WORDS=(patchbay ${line}); COMP_CWORD=${String(words.length)}
_patchbay
printf '%s\\n' "\${COMPREPLY[@]}"`;
  // --norc: without a parent shell, bash takes the pipes for a network connection and reads the startup files.
  const argv = ["--norc", "-u", "-c", script];
  const { stdout, stderr } = spawnSync("bash", argv, { encoding: "utf8" });
  expect(stderr).toBe("");
  return stdout.trim().split("\n");
}

test.each([
  { name: "VMs without flags", words: ["addinterface", ""], want: "asked:complete,vms" },
  {
    name: "VMs of the requested namespace and server",
    words: ["-n", "blue", "--kubeconfig", "/k", "stop", ""],
    want: "asked:-n,blue,--kubeconfig,/k,complete,vms",
  },
  {
    name: "networks",
    words: ["addinterface", "alpha", "--network-attachment-definition-name", ""],
    want: "asked:complete,networks",
  },
  {
    name: "interfaces of the VM",
    words: ["removeinterface", "alpha", "--wait", "--name", ""],
    want: "asked:complete,interfaces,alpha",
  },
  {
    name: "interfaces as an argument",
    words: ["explain", "alpha", ""],
    want: "asked:complete,interfaces,alpha",
  },
  { name: "VMs in a group", words: ["get", "ifaces", ""], want: "asked:complete,vms" },
  { name: "namespaces", words: ["stop", "-n", ""], want: "asked:complete,namespaces" },
  { name: "images", words: ["image", "remove", ""], want: "asked:complete,images" },
])("offers $name", ({ words, want }) => {
  expect(offered(...words)).toEqual([want]);
});

test("offers commands, groups and their subcommands", () => {
  expect(offered("")).toEqual(expect.arrayContaining(["up", "addinterface", "get", "image"]));
  expect(offered("")).not.toContain("complete");
  expect(offered("image", "")).toEqual(["add", "list", "remove"]);
  expect(offered("completion", "")).toEqual(["bash", "zsh"]);
  expect(offered("start", "a", "-o", "j")).toEqual(["json"]);
});

test("offers flags after a dash, or if no argument can follow", () => {
  expect(offered("up", "")).toEqual(expect.arrayContaining(["--bridge", "--api-port", "--help"]));
  expect(offered("addinterface", "alpha", "")).toEqual(
    expect.arrayContaining(["--name", "--wait", "--namespace"]),
  );
  expect(offered("addinterface", "--mo")).toEqual(["--model"]);
});

test("offers nothing for free-form values", () => {
  expect(offered("addinterface", "alpha", "--name", "")).toEqual([""]);
});
