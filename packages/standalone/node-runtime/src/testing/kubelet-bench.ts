// SPDX-License-Identifier: Apache-2.0
// A kubelet API server on a fake runtime, with certificates, logs on disk and clients.
import { mkdtemp, rm, writeFile, mkdir } from "node:fs/promises";
import { request, type RequestOptions } from "node:https";
import type { ClientRequest } from "node:http";
import { tmpdir } from "node:os";
import { dirname, join } from "node:path";
import type { Pod } from "@patchbay/api/kubernetes";
import { createClock, createFiles } from "@patchbay/os";
import { createAuthority, issueCertificate, type Authority } from "@patchbay/pki";
import {
  createFakeContainerRuntime,
  createFakeExecPrograms,
  type FakeContainerRuntime,
  type FakeExecPrograms,
} from "@patchbay/cri/testing";
import { createFakeCache, type FakeCache } from "@patchbay/kube/testing";
import { createSilentLogger } from "@patchbay/telemetry";
import { createRuns, RUN_UID } from "./runs.ts";
import { serveKubeletApi } from "../kubelet-api/serve.ts";

/** Common name of the API server's certificate, which the server accepts. */
const CLIENT_NAME = "kube-apiserver-kubelet-client";
/** Name in the server's certificate. */
const NODE_NAME = "node-1";

/** Pod `ns/p` with the container `c`. */
export const POD: Pod = {
  apiVersion: "v1",
  kind: "Pod",
  metadata: { namespace: "ns", name: "p", uid: RUN_UID },
  spec: { containers: [{ name: "c", image: "i" }] },
};

export interface KubeletBench {
  readonly port: number;
  readonly runtime: FakeContainerRuntime;
  readonly pods: FakeCache<Pod>;
  readonly programs: FakeExecPrograms;
  /** Starts container `c` and returns its id. */
  run(): Promise<string>;
  /** Appends lines to the log of the first run of container `c`. */
  write(...texts: readonly string[]): Promise<void>;
  /** Opens a request as the API server. `more` overrides options. */
  open(path: string, more?: RequestOptions): ClientRequest;
  /** Issues a client certificate, by default from the trusted authority. */
  identity(commonName: string, authority?: Authority): Promise<{ cert: string; key: string }>;
  stop(): Promise<void>;
}

async function issue(authority: Authority, commonName: string, usage: "server" | "client") {
  const { certPem, keyPem } = await issueCertificate(authority, {
    commonName,
    organizations: [],
    dnsNames: [NODE_NAME],
    ipAddresses: [],
    usages: [usage],
    validDays: 1,
  });
  return { cert: certPem, key: keyPem };
}

export async function startKubeletBench(): Promise<KubeletBench> {
  const clock = createClock();
  const directory = await mkdtemp(join(tmpdir(), "kubelet-api-"));
  const pathOf = (name: string): string => join(directory, name);
  const servers = await createAuthority("ca", clock);
  const clients = await createAuthority("clients-ca", clock);
  const { cert, key } = await issue(servers, `system:node:${NODE_NAME}`, "server");
  await writeFile(pathOf("kubelet.crt"), cert);
  await writeFile(pathOf("kubelet.key"), key);
  await writeFile(pathOf("clients.crt"), clients.certPem);
  const runtime = createFakeContainerRuntime(clock);
  const runs = createRuns(runtime, directory);
  const pods = createFakeCache<Pod>();
  pods.put(POD);
  const stop = new AbortController();
  const settings = {
    listenAddress: "127.0.0.1",
    port: 0,
    certFile: pathOf("kubelet.crt"),
    keyFile: pathOf("kubelet.key"),
    clientCaFile: pathOf("clients.crt"),
    clientNames: [CLIENT_NAME],
  };
  const programs = createFakeExecPrograms();
  const deps = { runtime, programs, pods, files: createFiles(), clock, log: createSilentLogger() };
  const { port, closed } = await serveKubeletApi(deps, settings, stop.signal);
  const identity = (name: string, authority = clients) => issue(authority, name, "client");
  const clientIdentity = await identity(CLIENT_NAME);
  const tls = { ca: servers.certPem, servername: NODE_NAME, agent: false } as const;
  return {
    port,
    runtime,
    pods,
    programs,
    identity,
    run: () => runs.run(),
    write: async (...texts) => {
      const log = pathOf("c/0.log");
      await mkdir(dirname(log), { recursive: true });
      const text = texts.map((line) => `2026-11-22T09:00:00Z stdout F ${line}\n`).join("");
      await writeFile(log, text, { flag: "a" });
    },
    open: (path, more = {}) =>
      request({ ...tls, ...clientIdentity, host: "127.0.0.1", port, path, ...more }),
    stop: async () => {
      stop.abort();
      await closed;
      await rm(directory, { recursive: true, force: true });
    },
  };
}
