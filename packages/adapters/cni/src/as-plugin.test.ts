// SPDX-License-Identifier: Apache-2.0
// Which calls are understood, and what is said of those that are not?
import { AppError, isAppError } from "@patchbay/base";
import { expect, test } from "vitest";
import { parsePluginCall, toPluginFailure } from "./as-plugin.ts";

const ARGS = "IgnoreUnknown=1;K8S_POD_NAMESPACE=ns1;K8S_POD_NAME=pod;K8S_POD_UID=uid-1;A=b=c;bare";
const ENV = {
  CNI_COMMAND: "ADD",
  CNI_CONTAINERID: "box-1",
  CNI_NETNS: "/run/netns/cni-1",
  CNI_IFNAME: "eth0",
  CNI_ARGS: ARGS,
  CNI_PATH: "/opt/cni/bin",
};
const CONFIG = { cniVersion: "1.0.0", name: "patchbay", type: "patchbay-cni" };

function buildBody(env: object, config: unknown = CONFIG): object {
  const text = typeof config === "string" ? config : JSON.stringify(config);
  return { env: { ...ENV, ...env }, config: Buffer.from(text).toString("base64") };
}

/** What is said of a call, and with which code; what is understood says nothing. */
function findRefusal(body: unknown): string | undefined {
  try {
    parsePluginCall(body);
    return undefined;
  } catch (error) {
    if (!isAppError(error, "CNI_CALL_INVALID")) throw error;
    return `${String(error.details["cniCode"])} ${String(error.details["reason"])}`;
  }
}

test("parses an ADD with the sandbox, its pod and the runtime's capability values", () => {
  const runtimeConfig = { portMappings: [] };
  const body = buildBody({}, { ...CONFIG, runtimeConfig });
  expect(parsePluginCall(body)).toEqual({
    command: "ADD",
    containerId: "box-1",
    interfaceName: "eth0",
    netnsPath: "/run/netns/cni-1",
    args: [
      ["IgnoreUnknown", "1"],
      ["K8S_POD_NAMESPACE", "ns1"],
      ["K8S_POD_NAME", "pod"],
      ["K8S_POD_UID", "uid-1"],
      ["A", "b=c"],
    ],
    pod: { namespace: "ns1", name: "pod", uid: "uid-1" },
    config: { ...CONFIG, runtimeConfig },
    cniVersion: "1.0.0",
    runtimeConfig,
    validAttachments: [],
    attributes: {},
  });
});

test("a DEL needs neither namespace nor pod; a configuration without a version has version 0.1.0", () => {
  const call = parsePluginCall(buildBody({ CNI_COMMAND: "DEL", CNI_NETNS: "", CNI_ARGS: "" }, {}));
  expect(call).toMatchObject({ command: "DEL", cniVersion: "0.1.0", args: [] });
  expect(call).not.toHaveProperty("netnsPath");
  expect(call).not.toHaveProperty("pod");
});

test("a GC lists the valid attachments", () => {
  const list = [{ containerID: "box-1", ifname: "eth0" }];
  const config = { ...CONFIG, cniVersion: "1.1.0", "cni.dev/valid-attachments": list };
  const call = parsePluginCall(buildBody({ CNI_COMMAND: "GC", CNI_CONTAINERID: "" }, config));
  expect(call.validAttachments).toEqual([{ containerId: "box-1", interfaceName: "eth0" }]);
});

test("passes the attributes of a dynamic networks controller on", () => {
  const interfaceAttributes = { mac: "02:00:00:00:00:01" };
  const call = parsePluginCall({ ...buildBody({}), interfaceAttributes });
  expect(call.attributes).toEqual(interfaceAttributes);
});

const LONG = "x".repeat(16);
test.each([
  { name: "a body that is not an object", body: [], want: "6 the request is not a JSON object" },
  {
    name: "a request without a command",
    body: { config: "e30=" },
    want: "4 CNI_COMMAND must be one of ADD, DEL, CHECK, GC, STATUS",
  },
  { name: "VERSION", body: buildBody({ CNI_COMMAND: "VERSION" }), want: /^4 CNI_COMMAND/ },
  {
    name: "a configuration that is not JSON",
    body: buildBody({}, "x"),
    want: "6 the network configuration is not a JSON object",
  },
  { name: "a configuration that is a list", body: buildBody({}, []), want: /^6 / },
  {
    name: "an unknown CNI version",
    body: buildBody({}, { cniVersion: "2.0.0" }),
    want: "1 CNI version 2.0.0 is not supported",
  },
  {
    name: "an empty environment",
    body: buildBody({ CNI_CONTAINERID: "", CNI_IFNAME: "", CNI_NETNS: "", CNI_ARGS: "" }),
    want: "4 missing or not valid: CNI_CONTAINERID, CNI_IFNAME, CNI_NETNS, CNI_ARGS (K8S_POD_NAMESPACE, K8S_POD_NAME and K8S_POD_UID)",
  },
  {
    name: "a container ID that is a path",
    body: buildBody({ CNI_CONTAINERID: "../x" }),
    want: /CNI_CONTAINERID$/,
  },
  {
    name: "a NIC name that is a path",
    body: buildBody({ CNI_IFNAME: "a/b" }),
    want: /CNI_IFNAME$/,
  },
  { name: "the NIC name '..'", body: buildBody({ CNI_IFNAME: ".." }), want: /CNI_IFNAME$/ },
  {
    name: "a NIC name that is too long",
    body: buildBody({ CNI_IFNAME: LONG }),
    want: /CNI_IFNAME$/,
  },
  {
    name: "a network namespace with a relative path",
    body: buildBody({ CNI_NETNS: "netns" }),
    want: /CNI_NETNS$/,
  },
  {
    name: "a pod without uid",
    body: buildBody({ CNI_ARGS: "K8S_POD_NAMESPACE=a;K8S_POD_NAME=b" }),
    want: /^4 .*K8S_POD_UID/,
  },
  {
    name: "a GC without valid attachments",
    body: buildBody({ CNI_COMMAND: "GC" }),
    want: "7 GC needs cni.dev/valid-attachments",
  },
  {
    name: "a GC with an invalid entry",
    body: buildBody({ CNI_COMMAND: "GC" }, { "cni.dev/valid-attachments": [{}] }),
    want: "7 cni.dev/valid-attachments has an entry without containerID",
  },
])("rejects $name", ({ body, want }) => {
  expect(findRefusal(body)).toMatch(want);
});

const FAILED = { plugin: "bridge", command: "ADD", message: "no" };

test.each([
  {
    name: "an invalid call",
    error: new AppError("CNI_CALL_INVALID", { reason: "x", cniCode: 4 }),
    code: 4,
  },
  {
    name: "a plugin's own code",
    error: new AppError("CNI_PLUGIN_FAILED", { ...FAILED, cniCode: 11 }),
    code: 11,
  },
  {
    name: "a plugin that crashed",
    error: new AppError("CNI_PLUGIN_FAILED", { ...FAILED, cniCode: 0 }),
    code: 999,
  },
  {
    name: "an invalid configuration",
    error: new AppError("CNI_CONFIG_INVALID", { network: "a", reason: "b" }),
    code: 7,
  },
  { name: "a plugin that timed out", error: new AppError("CNI_TIMED_OUT"), code: 11 },
  { name: "an unknown pod", error: new AppError("CNI_POD_UNKNOWN"), code: 11 },
  { name: "an unreachable API server", error: new AppError("KUBE_UNREACHABLE"), code: 11 },
  { name: "an unavailable container runtime", error: new AppError("CRI_UNAVAILABLE"), code: 11 },
  { name: "a missing network", error: new AppError("CNI_NETWORK_NOT_FOUND"), code: 999 },
  { name: "an interface name in use", error: new AppError("CNI_NAME_TAKEN"), code: 999 },
  { name: "an internal error", error: new TypeError("oh"), code: 999 },
])("maps $name to code $code", ({ error, code }) => {
  expect(toPluginFailure(error, "1.0.0")).toEqual({
    cniVersion: "1.0.0",
    code,
    msg: error.message,
  });
});

test("omits an unknown version", () => {
  expect(toPluginFailure("odd")).toEqual({ code: 999, msg: "odd" });
});
