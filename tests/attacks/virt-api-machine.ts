// SPDX-License-Identifier: Apache-2.0
// The program virt-api behind an embedded API server, with the roles and webhooks of a standalone machine.
import { type ChildProcess, spawn } from "node:child_process";
import { once } from "node:events";
import { mkdtemp, readFile, rm, writeFile } from "node:fs/promises";
import { type Agent } from "node:https";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { STREAM_PROTOCOL } from "@patchbay/core/guest";
import { createKubeClient, loadKubeConfig } from "@patchbay/kube";
import { createClock, createFiles } from "@patchbay/os";
import { issueCertificate, kubeconfigText, type IssuedCertificate } from "@patchbay/pki";
import { ensureKinds, ensureRights, ensureVirtApi } from "@patchbay/supervisor/objects";
import { findFreePort, executableOf } from "@patchbay/support";
import { WebSocket } from "ws";
import { type Memory, memoryOf } from "./api-server-process.ts";
import { makeAgent, readText, send } from "../contract/apiserver/client.ts";
import {
  type Body,
  type Harness,
  identity,
  QUIET,
  startHarness,
} from "../contract/apiserver/harness.ts";

const VMS = "/apis/kubevirt.io/v1/namespaces/default/virtualmachines";

export interface Answer {
  readonly code: number;
  readonly body: Body;
  /** Of the API server or of the backend; empty without one. */
  readonly warning: string;
}

/** The result of a stream request: the received data, or the reason for its absence. */
export interface StreamAnswer {
  readonly code: number;
  readonly words: string;
}

/** A user with or without a certificate. */
export interface Person {
  /** Requests a path of the API server, or a whole URL. */
  ask(method: string, at: string, body?: unknown): Promise<Answer>;
  /** Opens a stream at the API server, sends a message, and reads until as much was received. */
  openStream(path: string, word: string): Promise<StreamAnswer>;
}

function sayOnStream(socket: WebSocket, word: string): Promise<StreamAnswer> {
  const { promise, resolve, reject } = Promise.withResolvers<StreamAnswer>();
  let words = "";
  socket.on("open", () => {
    socket.send(word);
  });
  socket.on("message", (chunk: Buffer) => {
    words += String(chunk);
    if (words.length >= word.length) socket.close();
  });
  socket.on("close", () => {
    resolve({ code: 101, words });
  });
  socket.on("unexpected-response", (_request, response) => {
    readText(response).then((text) => {
      const { message = "" } = JSON.parse(text) as { readonly message?: string };
      resolve({ code: response.statusCode ?? 0, words: message });
      socket.terminate();
    }, reject);
  });
  socket.on("error", reject);
  return promise;
}

/** A running virt-api behind its API server. */
export class VirtApiMachine implements AsyncDisposable {
  readonly api: Harness;
  readonly url: string;
  readonly #directory: string;
  readonly #agents: Agent[] = [];
  #child: ChildProcess | undefined;

  private constructor(api: Harness, directory: string, port: number) {
    this.api = api;
    this.#directory = directory;
    this.url = `https://127.0.0.1:${String(port)}`;
  }

  /** Starts both. `flags` returns more flags of virt-api for the authority's file. */
  static async start(
    flags: (caFile: string) => readonly string[] = () => [],
  ): Promise<VirtApiMachine> {
    const api = await startHarness();
    const directory = await mkdtemp(join(tmpdir(), "attack-"));
    const port = await findFreePort();
    const machine = new VirtApiMachine(api, directory, port);
    try {
      await machine.#prepare(port);
      await machine.#run(port, flags);
      return machine;
    } catch (error) {
      await machine[Symbol.asyncDispose]();
      throw error;
    }
  }

  /** A user with a certificate of the cluster's authority; without a name an anonymous one. */
  async person(name = "", groups: readonly string[] = []): Promise<Person> {
    const { authority, server } = this.api;
    const { certPem, keyPem } = await identity(authority, name || "nobody", groups);
    const shown = name === "" ? {} : { cert: certPem, key: keyPem };
    const agent = makeAgent({ ca: authority.certPem, ...shown });
    this.#agents.push(agent);
    return {
      ask: async (method, at, body) => {
        const type = method === "PATCH" ? "application/merge-patch+json" : "application/json";
        const text = body === undefined ? {} : { body: JSON.stringify(body) };
        const headers = { "content-type": type };
        const answer = await send(agent, at.startsWith("/") ? `${server.url}${at}` : at, {
          method,
          headers,
          ...text,
        });
        const isPicture = answer.headers["content-type"] === "image/png";
        const output = await readText(answer);
        // All other responses are JSON.
        const parsed = JSON.parse(isPicture ? "{}" : output) as Body;
        const { warning = "" } = answer.headers;
        return { code: answer.statusCode ?? 0, body: parsed, warning };
      },
      openStream: (path, word) => {
        const url = `${server.url}${path}`.replace(/^http/, "ws");
        return sayOnStream(
          new WebSocket(url, STREAM_PROTOCOL, { ca: authority.certPem, ...shown }),
          word,
        );
      },
    };
  }

  /** virt-api's memory. */
  memory(): Promise<Memory> {
    return memoryOf(this.#child?.pid);
  }

  /** Processor time of virt-api's main thread, which serves admission, in milliseconds. */
  async mainThreadMs(): Promise<number> {
    const pid = String(this.#child?.pid);
    const [usedNs] = (await readFile(`/proc/${pid}/task/${pid}/schedstat`, "utf8")).split(" ");
    return Number(usedNs) / 1e6;
  }

  agentOf(node: string): Promise<Person> {
    return this.person("system:serviceaccount:patchbay:virt-handler", [`patchbay.io:node:${node}`]);
  }

  /** Creates a VM with one NIC. */
  async makeVm(namespace: string, name: string, mac: string): Promise<Answer> {
    const spec = {
      domain: { devices: { interfaces: [{ name: "nic1", bridge: {}, macAddress: mac }] } },
      networks: [{ name: "nic1", multus: { networkName: "default/blue" } }],
    };
    const body = { metadata: { name }, spec: { runStrategy: "Always", template: { spec } } };
    const answer = await this.api.post(VMS.replace("/default/", `/${namespace}/`), {
      apiVersion: "kubevirt.io/v1",
      kind: "VirtualMachine",
      ...body,
    });
    return { ...answer, warning: "" };
  }

  async [Symbol.asyncDispose](): Promise<void> {
    const child = this.#child;
    if (child !== undefined && child.exitCode === null) {
      const exit = once(child, "exit");
      child.kill("SIGKILL");
      await exit;
    }
    for (const agent of this.#agents) agent.destroy();
    await this.api.close();
    await rm(this.#directory, { recursive: true });
  }

  async #prepare(port: number): Promise<void> {
    const { api } = this;
    const admin = join(this.#directory, "admin.kubeconfig");
    await writeFile(admin, api.kubeconfig, { mode: 0o600 });
    const client = createKubeClient(await loadKubeConfig({ kubeconfig: admin }), {
      logger: QUIET,
      clock: createClock(),
    });
    try {
      await ensureRights(client.store, createFiles(), "a");
      await ensureKinds(client.store);
      await ensureVirtApi(client.store, { port, caPem: api.authority.certPem });
    } finally {
      await client.close();
    }
  }

  async #write(name: string, text: string): Promise<string> {
    const file = join(this.#directory, name);
    await writeFile(file, text, { mode: 0o600 });
    return file;
  }

  async #serverCertificate(): Promise<IssuedCertificate> {
    return issueCertificate(this.api.authority, {
      commonName: "virt-api",
      organizations: [],
      dnsNames: ["virt-api.patchbay.svc"],
      ipAddresses: ["127.0.0.1"],
      usages: ["server"],
      validDays: 1,
    });
  }

  async #run(port: number, flags: (caFile: string) => readonly string[]): Promise<void> {
    const { authority, server } = this.api;
    const user = "system:serviceaccount:patchbay:virt-api";
    const account = await identity(authority, user, []);
    const own = await this.#serverCertificate();
    const caFile = await this.#write("ca.crt", authority.certPem);
    const text = kubeconfigText({ server: server.url, caPem: authority.certPem, user, ...account });
    const child = spawn(
      executableOf("virt-api"),
      [
        "--log-level",
        "error",
        "--kubeconfig",
        await this.#write("virt-api.kubeconfig", text),
        "--listen-address",
        "127.0.0.1",
        "--port",
        String(port),
        "--tls-cert-file",
        await this.#write("tls.crt", own.certPem),
        "--tls-private-key-file",
        await this.#write("tls.key", own.keyPem),
        "--requestheader-client-ca-file",
        caFile,
        "--requestheader-allowed-names",
        "front-proxy-client",
        ...flags(caFile),
      ],
      { stdio: ["ignore", "pipe", "inherit"] },
    );
    this.#child = child;
    const ended = once(child, "exit").then(() => {
      throw new Error("virt-api ended before it was ready");
    });
    await Promise.race([once(child.stdout, "data"), ended]);
    ended.catch(() => undefined);
  }
}
