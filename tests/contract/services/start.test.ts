// SPDX-License-Identifier: Apache-2.0
// Failed starts, readiness and versions of services.
import { spawnSync } from "node:child_process";
import { mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { createServer, type AddressInfo, type Server } from "node:net";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { FakeCriSandboxes } from "@patchbay/cri/testing";
import { VERSION } from "@patchbay/base/version";
import { PLUGIN_PROGRAM } from "@patchbay/cni";
import { eventually, executableOf, type ProgramName } from "@patchbay/support";
import { afterAll, afterEach, beforeAll, expect, test } from "vitest";
import { startHarness, type Harness } from "../apiserver/harness.ts";
import { NAD_DEFINITION } from "../net-agent/nad-definition.ts";
import { Service } from "./service.ts";

/** More than a second, which it takes on an idle machine. */
const TIMEOUT = { withinMs: 10_000 };
const ATTEMPTS = 3;
/** Above what a kernel gives. Source: proc_sys_kernel(5), pid_max */
const NO_PROCESS = "4194305";

let directory: string;
let api: Harness;
let runtime: FakeCriSandboxes;
let claimed: Server;
let service: Service | undefined;

function start(name: ProgramName, ...flags: readonly string[]): Service {
  service = new Service(name, "--kubeconfig", join(directory, "kubeconfig"), ...flags);
  return service;
}

/** A node's agent with everything it needs. */
function startAgent(...flags: readonly string[]): Service {
  const state = ["--state-dir", join(directory, "state"), "--mode", "alone"];
  const own = ["--node-name", "node-1", ...state];
  return start("net-agent", ...own, "--cri-endpoint", runtime.endpoint, ...flags);
}

beforeAll(async () => {
  directory = mkdtempSync(join(tmpdir(), "services-"));
  api = await startHarness();
  await api.post("/apis/apiextensions.k8s.io/v1/customresourcedefinitions", NAD_DEFINITION);
  runtime = await FakeCriSandboxes.start();
  writeFileSync(join(directory, "kubeconfig"), api.kubeconfig);
  claimed = createServer().listen(0);
});

afterEach(async () => {
  await service?.kill();
  runtime.isAway = false;
});

afterAll(async () => {
  claimed.close();
  runtime.close();
  await api.close();
  rmSync(directory, { recursive: true });
});

/** Exit status and output of a program that ends at once. Node.js can wait forever at its end. Source: nodejs/node#54918 */
function outputOf(program: string, ...args: readonly string[]): string | undefined {
  for (let attempt = 0; attempt < ATTEMPTS; attempt += 1) {
    const options = {
      encoding: "utf8",
      timeout: TIMEOUT.withinMs * 6,
      killSignal: "SIGKILL",
    } as const;
    const { status, stdout, stderr } = spawnSync(program, args, options);
    if (status !== null) return `${String(status)} ${stdout}${stderr}`;
  }
  return undefined;
}

test("every program prints the version of the release", () => {
  const services = ["virt-api", "virt-controller", "virt-handler", "net-agent"] as const;
  const programs = [...services, "node-runtime", "service-net"] as const;
  const vhostUser = join(PLUGIN_PROGRAM, "../patchbay-vhost-user");
  for (const program of [...programs.map(executableOf), PLUGIN_PROGRAM, vhostUser]) {
    const output = outputOf(program, "--version");
    expect({ program, output }).toEqual({ program, output: `0 ${VERSION}\n` });
  }
  expect(outputOf(executableOf("patchbay"), "--version")).toBe(`0 patchbay ${VERSION}\n`);
});

test.each(["virt-api", "virt-controller", "virt-handler", "net-agent", "node-runtime"] as const)(
  "%s exits when its start fails after it became live",
  async (name) => {
    const { port } = claimed.address() as AddressInfo;
    const failing = start(name, "--metrics-port", String(port));
    await failing.until("serving health checks");
    expect((await failing.until("failed")).reason).toContain("EADDRINUSE");
    await eventually(() => failing.exitCode !== undefined, TIMEOUT);
    expect(failing.exitCode).toBe(1);
    expect(await failing.probe("/healthz")).toBe(0);
  },
);

test("net-agent exits when it cannot inspect the host's namespaces, also with open watches", async () => {
  const failing = startAgent("--host-process", NO_PROCESS);
  expect((await failing.until("failed")).reason).toContain(`/proc/${NO_PROCESS}/ns/net`);
  await eventually(() => failing.exitCode !== undefined, TIMEOUT);
  expect(failing.exitCode).toBe(1);
});

test("net-agent is ready while the container runtime answers and live without it", async () => {
  runtime.isAway = true;
  const agent = startAgent();
  await agent.until("waiting for the container runtime");
  expect(await agent.probe("/readyz")).toBe(503);
  runtime.isAway = false;
  await eventually(async () => (await agent.probe("/readyz")) === 200, TIMEOUT);
  runtime.isAway = true;
  expect(await agent.probe("/readyz")).toBe(503);
  expect(await agent.probe("/healthz")).toBe(200);
  expect((await agent.until("the service is not ready for its work")).reason).toContain(
    "no container runtime answers",
  );
  runtime.isAway = false;
  expect(await agent.probe("/readyz")).toBe(200);
});
