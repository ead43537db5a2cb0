// SPDX-License-Identifier: Apache-2.0
// An API server, a node that serves logs and streams from a real containerd, and kubectl as a client.
import { join } from "node:path";
import { writeFileSync } from "node:fs";
import type { Pod } from "@patchbay/api/kubernetes";
import { createExecPrograms } from "@patchbay/cri";
import { createClock, createFiles } from "@patchbay/os";
import { type Authority, issueCertificate } from "@patchbay/pki";
import type { ExecPrograms } from "@patchbay/core/interfaces";
import { createFakeCache } from "@patchbay/kube/testing";
import { createSilentLogger } from "@patchbay/telemetry";
import { serveKubeletApi } from "../../../packages/standalone/node-runtime/src/kubelet-api/serve.ts";
import {
  containerConfigFor,
  sandboxConfigFor,
} from "../../../packages/adapters/cri/src/testing/contracts/container-runtime/bench.ts";
import { makePod, registerNode } from "../apiserver/kubelet/node.ts";
import { type KubectlSession, startKubectlSession } from "../apiserver/kubectl/session.ts";
import { type ContainerdRuntimeBench, startContainerdRuntime } from "../cri/containerd-runtime.ts";

const NODE = "streams";

export interface StreamNode {
  readonly bench: ContainerdRuntimeBench;
  readonly session: KubectlSession;
  readonly programs: ExecPrograms;
  /** Creates a pod with one container, `main`, that runs `script`; also returns its restart function. */
  pod(name: string, script: string): Promise<RunningPod>;
  close(): Promise<void>;
}

/** A pod with its one container. */
export interface RunningPod {
  /** Path below the API server. */
  readonly path: string;
  readonly pod: Pod;
  readonly containerId: string;
  /** Restarts the container; returns its id. */
  again(script: string): Promise<string>;
}

async function writeCertificates(directory: string, authority: Authority) {
  const { certPem, keyPem } = await issueCertificate(authority, {
    commonName: `system:node:${NODE}`,
    organizations: ["system:nodes"],
    usages: ["server"],
    dnsNames: [NODE],
    ipAddresses: [],
    validDays: 1,
  });
  const files = { certFile: certPem, keyFile: keyPem, clientCaFile: authority.certPem };
  for (const [name, text] of Object.entries(files)) writeFileSync(join(directory, name), text);
  const at = (name: keyof typeof files): string => join(directory, name);
  return { certFile: at("certFile"), keyFile: at("keyFile"), clientCaFile: at("clientCaFile") };
}

export async function startStreamNode(): Promise<StreamNode> {
  const tokens = [{ token: "admin-token", user: "root", groups: ["system:masters"] }];
  const session = await startKubectlSession({}, { tokens });
  const bench = await startContainerdRuntime();
  const { runtime } = bench;
  const pods = createFakeCache<Pod>();
  const stop = new AbortController();
  const certificates = await writeCertificates(session.directory, session.api.authority);
  const clock = createClock();
  const programs = createExecPrograms({ endpoints: [bench.containerd.endpoint], clock });
  const deps = { files: createFiles(), clock, log: createSilentLogger() };
  const settings = { listenAddress: "127.0.0.1", port: 0, clientNames: ["kubelet-client"] };
  const { port, closed } = await serveKubeletApi(
    { ...deps, runtime, programs, pods },
    { ...settings, ...certificates },
    stop.signal,
  );
  await registerNode(session.api, NODE, port);
  return {
    bench,
    programs,
    session,
    pod: async (name, script) => {
      const path = await makePod(session.api, { name, nodeName: NODE }, ["main"]);
      const pod = (await session.api.get(path)).body as unknown as Pod;
      pods.put(pod);
      const labels = { "io.kubernetes.pod.uid": pod.metadata.uid ?? "" };
      const sandbox = { ...sandboxConfigFor(bench, name), labels };
      const sandboxId = await runtime.runSandbox(sandbox);
      let attempt = -1;
      const start = async (line: string): Promise<string> => {
        attempt += 1;
        const config = containerConfigFor(bench, ["/bin/sh", "-c", line], attempt);
        const id = await runtime.createContainer(sandboxId, { ...config, labels }, sandbox);
        await runtime.startContainer(id);
        return id;
      };
      return { path, pod, containerId: await start(script), again: start };
    },
    close: async () => {
      stop.abort();
      await closed;
      programs.close();
      await bench.close();
      await session.close();
    },
  };
}
