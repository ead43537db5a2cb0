// SPDX-License-Identifier: Apache-2.0
// What two versions of Patchbay on one cluster agree on besides objects: names, and messages between processes.
import { spawn } from "node:child_process";
import { once } from "node:events";
import { existsSync, mkdtempSync, rmSync } from "node:fs";
import { createServer, type Socket } from "node:net";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { names } from "@patchbay/api";
import { parsePluginCall, printResult } from "@patchbay/cni";
import {
  buildDoctorPath,
  buildGuestPath,
  buildGuestStreamPath,
  GUEST_REQUESTS,
  HANDLER_CLIENT_NAME,
  HANDLER_SERVER_NAME,
  RELAY_CERTIFICATE,
} from "@patchbay/core/guest";
import type { CniResult } from "@patchbay/core/interfaces";
import {
  CHANNELS,
  DEPARTURE_CONFIRMATION,
  printGreeting,
} from "../../packages/control-plane/virt-handler/src/relays/protocol.ts";
import { SOCKETS } from "../../packages/control-plane/virt-handler/src/relays/relays.ts";
import { ROOT } from "./recorded.ts";

const PLUGIN = join(ROOT, "packages/adapters/cni/build/patchbay-cni");
const KEY = { namespace: "blue", name: "vm1" };
const MIGRATION = "5f6f6a1c-8d0e-4d0c-8d39-5c1f5e3c1b11";

/** Values of all names that objects, files and sockets have; images have a version of their own. */
export function listNames(): readonly string[] {
  const entries = Object.entries(names).filter(([name]) => !name.endsWith("_IMAGE"));
  return [...new Set(entries.map(([, value]) => String(value)))].toSorted();
}

/** What one virt-handler's relay sends to the other's. */
export function listGreetings(): readonly string[] {
  return [
    ...CHANNELS.map((channel) => printGreeting({ migration: MIGRATION, channel })),
    printGreeting({ migration: MIGRATION, isGuestGone: true }),
  ];
}

/** What virt-api requests from virt-handler. */
export function listHandlerRequests(): readonly string[] {
  return [
    ...Object.entries(GUEST_REQUESTS).map(
      ([request, method]) => `${method} ${buildGuestPath(KEY, request)}`,
    ),
    `get ${buildDoctorPath(KEY, "red")}`,
    ...(["console", "vnc"] as const).map(
      (stream) => `stream ${buildGuestStreamPath(KEY, { stream, preservesSession: true })}`,
    ),
    `stream ${buildGuestStreamPath(KEY, { stream: "vnc", preservesSession: true, sharesScreen: true })}`,
  ];
}

const RESULT: CniResult = {
  cniVersion: "1.0.0",
  interfaces: [{ name: "eth0", mac: "02:00:00:00:00:01", sandbox: "/run/netns/box" }],
  ips: [{ interface: 0, address: "10.88.0.2/24", gateway: "10.88.0.1" }],
};

/** net-agent's answers to the plugin, by CNI version. */
export function buildPluginAnswers(): Readonly<Record<string, object>> {
  const versions = ["0.3.1", "0.4.0", "1.0.0", "1.1.0"];
  return Object.fromEntries(versions.map((version) => [version, printResult(RESULT, version)]));
}

/** The request that the program patchbay-cni sends to net-agent. */
async function capturePluginRequest(): Promise<string> {
  if (!existsSync(PLUGIN)) throw new Error(`${PLUGIN} is missing; run: hack/build-native`);
  const directory = mkdtempSync(join(tmpdir(), "record-cni-"));
  try {
    const server = createServer();
    await once(server.listen(join(directory, "s")), "listening");
    const config = {
      cniVersion: "1.0.0",
      name: "patchbay",
      type: "patchbay-cni",
      socket: join(directory, "s"),
    };
    const child = spawn(PLUGIN, [], {
      stdio: ["pipe", "ignore", "ignore"],
      env: {
        CNI_COMMAND: "ADD",
        CNI_CONTAINERID: "box",
        CNI_NETNS: "/run/netns/box",
        CNI_IFNAME: "eth0",
        CNI_ARGS: "IgnoreUnknown=1;K8S_POD_NAMESPACE=blue;K8S_POD_NAME=pod;K8S_POD_UID=uid-1",
        CNI_PATH: "/opt/cni/bin",
      },
    });
    child.stdin.end(JSON.stringify(config));
    const [socket] = (await once(server, "connection")) as [Socket];
    let request = "";
    while (!isComplete(request)) request += String((await once(socket, "data"))[0]);
    socket.end("HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\n{}");
    await once(child, "exit");
    server.close();
    return request.replace(/("config":")([^"]*)"/, (_all, head: string, text: string) => {
      const neutral = Buffer.from(text, "base64").toString().replace(directory, "/run");
      return `${head}${Buffer.from(neutral).toString("base64")}"`;
    });
  } finally {
    rmSync(directory, { recursive: true });
  }
}

function isComplete(request: string): boolean {
  const [head = "", body = ""] = request.split("\r\n\r\n");
  const length = Number(/content-length: (\d+)/i.exec(head)?.[1] ?? "-1");
  return length >= 0 && body.length >= length;
}

export interface Messages {
  readonly names: readonly string[];
  readonly relay: {
    readonly greetings: readonly string[];
    readonly confirmation: string;
    readonly sockets: Readonly<Record<string, string>>;
  };
  readonly handler: {
    readonly requests: readonly string[];
    readonly client: string;
    readonly server: string;
    readonly relayCertificate: string;
  };
  readonly plugin: {
    readonly requestLine: string;
    readonly body: string;
    /** What net-agent understands of the request. */
    readonly call: unknown;
    readonly answers: Readonly<Record<string, object>>;
  };
}

/** Everything except what the plugin sends. */
export function currentMessages(): Omit<Messages, "plugin"> {
  return {
    names: listNames(),
    relay: {
      greetings: listGreetings(),
      confirmation: DEPARTURE_CONFIRMATION,
      sockets: SOCKETS,
    },
    handler: {
      requests: listHandlerRequests(),
      client: HANDLER_CLIENT_NAME,
      server: HANDLER_SERVER_NAME,
      relayCertificate: RELAY_CERTIFICATE,
    },
  };
}

export async function recordMessages(): Promise<Messages> {
  const request = await capturePluginRequest();
  const [requestLine = ""] = request.split("\r\n", 1);
  const [, body = ""] = request.split("\r\n\r\n");
  const call = parsePluginCall(JSON.parse(body) as unknown);
  return {
    ...currentMessages(),
    plugin: { requestLine, body, call, answers: buildPluginAnswers() },
  };
}
