// SPDX-License-Identifier: Apache-2.0
// Rows about definitions and plugin calls.
import { chmodSync, closeSync, openSync } from "node:fs";
import { join } from "node:path";
import { names } from "@patchbay/api";
import { parseNetworks } from "@patchbay/api/annotations";
import { createCni, createJournal, parseNetworkConfig, type JournalRow } from "@patchbay/cni";
import { AppError, isAppError } from "@patchbay/base";
import { createProcessRunner } from "@patchbay/os";
import type {
  AttachmentRequest,
  CniResult,
  Command,
  NetworkConfigList,
} from "@patchbay/core/interfaces";
import { createFakeFiles } from "@patchbay/os/testing";
import { printPluginConfig } from "../../../../packages/adapters/cni/src/formats.ts";
import { parseVersions } from "../../../../packages/adapters/cni/src/version.ts";
import {
  DEFINITIONS_DIR,
  DEVICE_INFO_DIR,
} from "../../../../packages/control-plane/net-agent/src/testing/node-files.ts";
import { POD_KEY, World } from "../../../../packages/control-plane/net-agent/src/testing/world.ts";
import { CniNode } from "../node.ts";
import type { Fields, Judge } from "./rows.ts";

type Plugin = NetworkConfigList["plugins"][number];

function requestOf(plugins: readonly Plugin[], cniVersion = "1.0.0"): AttachmentRequest {
  return {
    containerId: "box",
    netnsPath: "/run/netns/box",
    interfaceName: "net1",
    config: { cniVersion, name: "blue", plugins },
    args: [],
    capabilityArgs: {},
  };
}

/** Plugins that answer as the row says, and their calls. */
function scripted(answer: (type: string) => { readonly rc: number; readonly stdout: string }) {
  const calls: { readonly type: string; readonly config: Fields }[] = [];
  const run = (command: Command) => {
    const type = command.argv[0].replace("/b/", "");
    if (command.env?.["CNI_COMMAND"] === "VERSION") {
      const out = { cniVersion: "1.0.0", supportedVersions: ["0.3.1", "0.4.0", "1.0.0"] };
      return Promise.resolve({ exitCode: 0, stdout: JSON.stringify(out), stderr: "" });
    }
    calls.push({ type, config: JSON.parse(command.stdin ?? "{}") as Fields });
    const { rc, stdout } = answer(type);
    return Promise.resolve({ exitCode: rc, stdout, stderr: "" });
  };
  const runner = { run, killProcessFamily: () => Promise.resolve() };
  return { cni: createCni({ runner, binDirs: ["/b"], family: "rows" }), calls };
}

async function failureOf(attempt: Promise<unknown>): Promise<AppError> {
  const error: unknown = await attempt.catch((thrown: unknown) => thrown);
  if (isAppError(error)) return error;
  throw new Error("it did not fail");
}

const textOf = (stdout: unknown): string =>
  typeof stdout === "string" ? stdout : JSON.stringify(stdout);

const addFails: Judge = async ({ input, expected }) => {
  const { rc, stdout } = input;
  const { cni } = scripted(() => ({ rc: rc as number, stdout: textOf(stdout) }));
  const { details, message } = await failureOf(cni.add(requestOf([{ type: "p" }])));
  const code = details["cniCode"];
  if (expected["error"] !== undefined) {
    // Our message ends with the plugin's.
    return { error: { code, msg: /banana$/.exec(message)?.[0] } };
  }
  const words = ["exit code 1", "the answer is not a CNI result"].filter((word) =>
    message.includes(word),
  );
  return { errorContains: words, ...("code" in expected ? { code } : {}) };
};

const resultVersion: Judge = async ({ input }) => {
  const { cni } = scripted(() => ({ rc: 0, stdout: textOf(input["stdout"]) }));
  const result = await cni.add(requestOf([{ type: "p" }], input["confVersion"] as string));
  return { resultVersion: result.cniVersion };
};

const delPassesNoResult: Judge = async ({ input }) => {
  const { cni, calls } = scripted(() => ({ rc: 0, stdout: "" }));
  const cniVersion = input["confVersion"] as string;
  await cni.del(requestOf([{ type: "p" }], cniVersion), { cniVersion });
  return { prevResultPassed: calls.some(({ config }) => config["prevResult"] !== undefined) };
};

const addStops: Judge = async ({ input }) => {
  const plugins = (input["plugins"] as readonly string[]).map((type) => ({ type }));
  const answer = (type: string) =>
    type === input["fail"] ? { rc: 1, stdout: "" } : { rc: 0, stdout: "{}" };
  const { cni, calls } = scripted(answer);
  await failureOf(cni.add(requestOf(plugins)));
  const executed = calls.map(({ type }) => type);
  const world = new World();
  world.putNad({ namespace: "ns1", name: "a" }, { plugins });
  await world.putPod({ networks: "a" });
  const fault = new AppError("CNI_PLUGIN_FAILED", { plugin: "b", command: "ADD" });
  world.cni.failNext("add", fault, "half");
  await world.pass();
  const rows = await world.journal.list("uid-1");
  return {
    executed,
    cacheWritten: rows.some((row) => row.state === "attached"),
    runtimeMustThen: world.cni.calls.at(-1)?.split(" ")[0],
  };
};

/** Retries, because a program that is still open for writing cannot run. */
const textFileBusy: Judge = async () => {
  const node = new CniNode();
  try {
    node.addPlugin("busy", `echo '{"cniVersion":"1.0.0"}'`);
    const path = join(node.binDir, "busy");
    chmodSync(path, 0o755);
    const runner = createProcessRunner();
    const cni = createCni({ runner, binDirs: [node.binDir], family: node.directory });
    const writing = openSync(path, "r+");
    await failureOf(cni.add(requestOf([{ type: "busy" }]))).finally(() => {
      closeSync(writing);
    });
    await cni.add(requestOf([{ type: "busy" }]));
    return { retries: "by the loop" };
  } finally {
    node.close();
  }
};

const badType: Judge = ({ input }) => {
  const parsed = parseNetworkConfig(JSON.stringify({ type: input["type"] }), "n");
  const output = parsed.ok ? "" : parsed.causes.map(({ message }) => message).join();
  return { errorContains: ["must be the file name"].filter((word) => output.includes(word)) };
};

const versions: Judge = ({ input }) => ({ supportedVersions: parseVersions(input["stdout"]) });

const badContainer: Judge = async ({ input }) => {
  const request = { ...requestOf([]), containerId: input["containerID"] as string };
  const row: JournalRow = {
    podUid: "u",
    podNamespace: "ns1",
    podName: "p",
    network: "ns1/n",
    request,
    netnsInode: "1",
    bootId: "b",
    sequence: 1,
    state: "begun",
  };
  await failureOf(createJournal(createFakeFiles(), "/journal").write(row));
  return { refused: true };
};

const badNetwork: Judge = ({ input }) => {
  const config = { type: "p", name: input["network"] };
  return { refused: !parseNetworkConfig(JSON.stringify(config), "n").ok };
};

const badInterface: Judge = ({ input }) => {
  const element = { name: "n", interface: input["ifName"] };
  return { refused: !parseNetworks(JSON.stringify([element])).ok };
};

const isolation: Judge = async ({ input }) => {
  const { nadNamespace } = input;
  const world = new World();
  world.putNads(`${nadNamespace as string}/a`);
  world.isIsolated = input["namespaceIsolation"] as boolean;
  await world.putPod({ networks: `${nadNamespace as string}/a` });
  await world.pass();
  return { allowed: world.cni.attachments.length > 0 };
};

const capabilities: Judge = ({ input }) => {
  const text = printPluginConfig(
    input["plugin"] as Plugin,
    { name: "n", cniVersion: "1.0.0" },
    { capabilityArgs: input["capabilityArgs"] as Fields },
  );
  return { runtimeConfig: (JSON.parse(text) as Fields)["runtimeConfig"] };
};

const chooseVersion: Judge = ({ input }) => {
  const { cniVersion, cniVersions } = input;
  const parsed = parseNetworkConfig(JSON.stringify({ type: "p", cniVersion, cniVersions }), "n");
  return { selected: parsed.ok ? parsed.config.cniVersion : undefined };
};

const define: Judge = ({ input, expected }) => {
  const text = (input["config_raw"] as string | undefined) ?? JSON.stringify(input["config"]);
  const parsed = parseNetworkConfig(text, input["nadName"] as string);
  if (!parsed.ok) return { error: parsed.causes.map(({ message }) => message).join() };
  const [plugin = { type: "" }] = parsed.config.plugins;
  const printed = printPluginConfig(plugin, parsed.config, { capabilityArgs: {} });
  // A configuration without a version has the oldest one; the row omits it.
  const reported = Object.entries(JSON.parse(printed) as Fields).filter(
    ([key]) => key in (expected["config"] as Fields),
  );
  return { config: Object.fromEntries(reported) };
};

const defineByFile: Judge = async ({ input }) => {
  const world = new World();
  const name = input["nadName"] as string;
  for (const [file, config] of Object.entries(input["confDir"] as Fields)) {
    await world.files.writeAtomic(`${DEFINITIONS_DIR}/${file}`, JSON.stringify(config));
  }
  world.putEmptyNad(name);
  await world.putPod({ networks: name });
  await world.pass();
  const [output = ""] = world.notes.map(({ message }) => message);
  return { error: /NetworkAttachmentDefinition.*(?=; write the configuration)/.exec(output)?.[0] };
};

/** A world in which an attachment has that device. */
async function worldWithDevice(plugins: readonly Fields[], id: string, info?: unknown) {
  const world = new World();
  const resource = "vendor.io/nic";
  const annotations = { [names.RESOURCE_NAME_ANNOTATION]: resource };
  world.putNad({ namespace: "ns1", name: "n" }, { name: "s", plugins }, annotations);
  world.podDevices.put(POD_KEY, resource, [id]);
  if (info !== undefined) {
    const path = `${DEVICE_INFO_DIR}/dp/vendor.io-nic-${id}-device.json`;
    await world.files.writeAtomic(path, JSON.stringify(info));
  }
  await world.putPod({ networks: "n" });
  return world;
}

const assignDevice: Judge = async ({ input }) => {
  const { plugins } = input["config"] as { readonly plugins: readonly Fields[] };
  const world = await worldWithDevice(plugins, input["deviceID"] as string);
  await world.pass();
  const config = world.requests[0]?.request.config;
  return { config: { name: config?.name, plugins: config?.plugins } };
};

const reportDevice: Judge = async ({ input }) => {
  const world = await worldWithDevice([{ type: "sriov" }], "x", input["deviceInfo"]);
  world.resultOf = () => input["result"] as CniResult; // as a plugin would print it
  await world.pass();
  return { entries: await world.networkStatus() };
};

/** Keyed by the row's name. */
export const LIBRARY_ROWS: Readonly<Record<string, Judge>> = {
  "name injected when absent": define,
  "existing name kept even if it differs from the object name": define,
  "no file matches": defineByFile,
  "deviceID and pciBusID put into every plugin of a list": assignDevice,
  "PCI device-info": reportDevice,
  "invalid JSON in spec.config": define,
  "isolation on, foreign namespace": isolation,
  "isolation on, default namespace implied": isolation,
  "capability filter": capabilities,
  "version selection: highest mutually known wins": chooseVersion,
  "version selection: cniVersions alone": chooseVersion,
  "non-zero exit with JSON on stdout": addFails,
  "non-zero exit, silent": addFails,
  "zero exit, garbage stdout on ADD": addFails,
  "result lacks cniVersion": resultVersion,
  "text file busy is retried": textFileBusy,
  "type with a slash": badType,
  "VERSION 0.2.0 without a list": versions,
  "DEL below 0.4.0 passes no prevResult": delPassesNoResult,
  "ADD stops at the first error, no cache": addStops,
  "validation: bad container id": badContainer,
  "validation: bad network name": badNetwork,
  "validation: interface name of 18 bytes": badInterface,
  "validation: interface name with slash": badInterface,
  "validation: interface name with colon": badInterface,
};
