// SPDX-License-Identifier: Apache-2.0
// Arguments of ssh and scp, and how the shell and ssh expand them.
import { execFileSync } from "node:child_process";
import { expect, test } from "vitest";
import { parseCopy, clientFlags, guestHost, type CallSettings } from "./ssh-client.ts";
import { parseGuestName } from "../guest-name.ts";

const HERE: CallSettings = {
  program: ["/opt/no de", "/opt/it's/main.js"],
  global: { dataDir: "/d%h", kubeconfig: '/k"$(reboot)' },
  namespace: "blue",
};
const PROXY = [
  ...HERE.program,
  "--data-dir",
  "/d%h",
  "--kubeconfig",
  '/k"$(reboot)',
  "port-forward",
  "--stdio",
];

function flagsOf(name: string, options: Readonly<Record<string, unknown>>): readonly string[] {
  return clientFlags(parseGuestName(name), HERE, { args: [], options });
}

test("the ssh client starts this program, with any characters in its file names", () => {
  const [, proxy = ""] = flagsOf("vmi/web/red", { port: 2222 });
  // ssh expands its own tokens first, then starts a shell.
  const command = proxy.replace("ProxyCommand=", "").replaceAll("%%", "%");
  const words = execFileSync("sh", ["-c", `printf '%s\\n' ${command}`], { encoding: "utf8" });
  expect(words.split("\n").slice(0, -1)).toEqual([...PROXY, "vmi/web/red", "2222"]);
});

test("passes each option to ssh as one word", () => {
  const options = {
    identityFile: "-key",
    knownHosts: '/a "b"%',
    localSshOpts: ["-o StrictHostKeyChecking=no", "-v"],
  };
  expect(flagsOf("web", options).slice(2)).toEqual([
    "-o",
    'UserKnownHostsFile="/a \\"b\\"%%"',
    "-o StrictHostKeyChecking=no",
    "-v",
    "-i",
    "-key",
  ]);
});

test.each([
  { name: "vm/web", options: {}, want: "vm.web.blue" },
  { name: "vmi/web/red", options: { username: "root" }, want: "root@vmi.web.red" },
  { name: "joe@web", options: { username: "root" }, want: "joe@vm.web.blue" },
])("$name with $options is the host $want", ({ name, options, want }) => {
  expect(guestHost(parseGuestName(name), HERE, { args: [], options })).toBe(want);
});

test("rejects a user name that looks like a flag", () => {
  const input = { args: [], options: { username: "-oProxyCommand=x" } };
  expect(() => guestHost(parseGuestName("web"), HERE, input)).toThrow("the user name is invalid");
});

test.each([
  {
    words: ["a.txt", "root@vm/web:/tmp/"],
    want: { isToGuest: true, localPath: "./a.txt", path: "/tmp/", name: "web", user: "root" },
  },
  {
    words: ["vmi/web/blue:a:b", "/tmp/c"],
    want: {
      isToGuest: false,
      localPath: "/tmp/c",
      path: "a:b",
      name: "web",
      namespace: "blue",
      isVmi: true,
    },
  },
  { words: ["-r", "web:"], want: { isToGuest: true, localPath: "./-r", path: "", name: "web" } },
  {
    words: ["./a:b", "web:c"],
    want: { isToGuest: true, localPath: "./a:b", path: "c", name: "web" },
  },
])("$words are $want", ({ words: [source = "", target = ""], want }) => {
  const { guest, isToGuest, localPath, path } = parseCopy(source, target);
  expect({ ...guest, isToGuest, localPath, path }).toEqual({ isVmi: false, ...want });
});

test.each([
  ["a", "b"],
  ["vm/a:b", "vm/c:d"],
])("rejects copying %s to %s", (source, target) => {
  expect(() => parseCopy(source, target)).toThrow("one of");
});
