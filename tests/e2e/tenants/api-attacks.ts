// SPDX-License-Identifier: Apache-2.0
// What a tenant with the role edit can do to the API server and, through it, to the other services.
import { readFileSync } from "node:fs";
import { once } from "node:events";
import { Agent, request, type RequestOptions } from "node:https";
import type { IncomingMessage } from "node:http";
import { connect as connectTcp, type Socket } from "node:net";
import { connect as connectTls } from "node:tls";
import { setTimeout as delay } from "node:timers/promises";
import type { AttackLoop, Attempt } from "./attack-loop.ts";

/** The attacker's addresses. Some limits count by address, so its silent connections would close its requests. */
const OWN_ADDRESS = "127.0.0.66";
const SILENT_ADDRESS = "127.0.0.67";
const RECONNECT_MS = 10;
const KIB = 1024;

export interface ApiTarget {
  readonly kubeconfig: string;
  readonly namespace: string;
  /** The attacker's VM, which runs. */
  readonly vm: string;
  /** A pod of the attacker that mounts the ConfigMap `mounted`, and is an endpoint of its Services. */
  readonly pod: string;
  /** Image of pods. */
  readonly image: string;
  /** The attacker's network. */
  readonly network: string;
  /** Ports of services with TLS on the machine's loopback address, beside the API server's. */
  readonly ports: readonly number[];
}

interface KubeConfigFile {
  readonly clusters: readonly [
    {
      readonly cluster: { readonly server: string; readonly "certificate-authority-data": string };
    },
  ];
  readonly users: readonly [
    {
      readonly user: {
        readonly "client-certificate-data": string;
        readonly "client-key-data": string;
      };
    },
  ];
}

/** Rejects if the connection fails. */
async function opened<S extends Socket>(socket: S, event: string): Promise<S> {
  socket.on("error", () => undefined);
  await once(socket, event);
  return socket;
}

async function untilClosed(socket: Socket): Promise<void> {
  if (!socket.closed) await once(socket, "close");
  await delay(RECONNECT_MS);
}

class Tenant {
  readonly #url: URL;
  readonly #tls: Readonly<Record<"ca" | "cert" | "key", Buffer>>;
  readonly #agent: Agent;

  constructor(kubeconfig: string) {
    // Written by createPerson.
    const config = JSON.parse(readFileSync(kubeconfig, "utf8")) as KubeConfigFile;
    const [{ cluster }] = config.clusters;
    const [{ user }] = config.users;
    const decode = (text: string): Buffer => Buffer.from(text, "base64");
    this.#url = new URL(cluster.server);
    this.#tls = {
      ca: decode(cluster["certificate-authority-data"]),
      cert: decode(user["client-certificate-data"]),
      key: decode(user["client-key-data"]),
    };
    this.#agent = new Agent({ keepAlive: true, localAddress: OWN_ADDRESS, ...this.#tls });
  }

  get port(): number {
    return Number(this.#url.port);
  }

  /** Returns the response's status. A patch is a merge patch. */
  async ask(method: string, path: string, body?: string): Promise<string> {
    const type = method === "PATCH" ? "application/merge-patch+json" : "application/json";
    const headers =
      body === undefined ? {} : { "content-type": type, "content-length": Buffer.byteLength(body) };
    const options: RequestOptions = { agent: this.#agent, method, headers };
    const response = await new Promise<IncomingMessage>((resolve, reject) => {
      request(new URL(path, this.#url), options, resolve).on("error", reject).end(body);
    });
    response.resume();
    await once(response, "close");
    return String(response.statusCode);
  }

  /** An authenticated connection. */
  async connect(): Promise<Socket> {
    const { hostname: host } = this.#url;
    const options = { host, port: this.port, localAddress: OWN_ADDRESS, ...this.#tls };
    return opened(connectTls(options), "secureConnect");
  }
}

function range(count: number): readonly number[] {
  return Array.from({ length: count }, (_none, index) => index);
}

/** A VM that does not run, as JSON. */
function vmText(name: string, nics: number, annotation: string): string {
  const interfaces = range(nics).map((index) => ({
    name: `nic${String(nics - index)}`,
    bridge: {},
    macAddress: "02:00:00:00:00:01",
  }));
  const networks = range(nics).map((index) => ({
    name: `nic${String(index + 1)}`,
    multus: { networkName: `own-${String(index)}` },
  }));
  const domain = { memory: { guest: "64Mi" }, devices: { interfaces } };
  return JSON.stringify({
    apiVersion: "kubevirt.io/v1",
    kind: "VirtualMachine",
    metadata: { name },
    spec: {
      runStrategy: "Halted",
      template: { metadata: { annotations: { note: annotation } }, spec: { domain, networks } },
    },
  });
}

/** One more than the quota of a tenant, so that some are refused. */
const MORE_SERVICES = 31;
const SERVICE_PORTS = 256;

function serviceText(name: string, firstPort: number): string {
  const ports = range(SERVICE_PORTS).map((index) => ({
    name: `p${String(index)}`,
    port: firstPort + index,
    targetPort: firstPort + index,
  }));
  return JSON.stringify({
    apiVersion: "v1",
    kind: "Service",
    metadata: { name },
    spec: { selector: { app: "own" }, ports },
  });
}

/** A definition at its limit whose refusal would be long: a long key and many paths of the node. */
function definitionText(name: string, keyLength: number): string {
  const paths = range(400).map((index) => `/etc/file-${String(index)}`);
  const config = { cniVersion: "0.4.0", type: "bridge", ["k".repeat(keyLength)]: paths };
  return JSON.stringify({
    apiVersion: "k8s.cni.cncf.io/v1",
    kind: "NetworkAttachmentDefinition",
    metadata: { name },
    spec: { config: JSON.stringify(config) },
  });
}

/** Updates an object, and creates it if it does not exist. */
function change(tenant: Tenant, collection: string, textOf: (turn: number) => string): Attempt {
  let turn = 0;
  return async (note) => {
    turn += 1;
    const text = textOf(turn);
    const { name } = (JSON.parse(text) as { readonly metadata: { readonly name: string } })
      .metadata;
    const status = await tenant.ask("PATCH", `${collection}/${name}`, text);
    note(status === "404" ? await tenant.ask("POST", collection, text) : status);
  };
}

/** Creates an object of its own for each worker and deletes it. */
function churn(tenant: Tenant, collection: string, textOf: (name: string) => string): Attempt {
  let turn = 0;
  return async (note, worker) => {
    turn += 1;
    const name = `churn-${String(worker)}-${String(turn)}`;
    const status = await tenant.ask("POST", collection, textOf(name));
    note(status);
    const options = JSON.stringify({
      kind: "DeleteOptions",
      apiVersion: "v1",
      gracePeriodSeconds: 0,
    });
    if (status === "201") note(await tenant.ask("DELETE", `${collection}/${name}`, options));
  };
}

/** Sends a request on its own connection, and holds the connection until the server closes it. */
function hold(tenant: Tenant, head: readonly string[], body: Buffer | string = ""): Attempt {
  return async (note) => {
    note("tried");
    const socket = await tenant.connect();
    socket.pause();
    socket.write(`${head.join("\r\n")}\r\n\r\n`);
    socket.write(body);
    note("open");
    await untilClosed(socket);
  };
}

function silence(connect: () => Socket, event: string): Attempt {
  return async (note) => {
    note("tried");
    const socket = await opened(connect(), event);
    socket.resume();
    note("open");
    await untilClosed(socket);
  };
}

function upgrade(path: string, protocol: string): readonly string[] {
  return [
    `GET ${path} HTTP/1.1`,
    "host: a",
    "connection: Upgrade",
    "upgrade: websocket",
    "sec-websocket-version: 13",
    "sec-websocket-key: AAAAAAAAAAAAAAAAAAAAAA==",
    `sec-websocket-protocol: ${protocol}`,
  ];
}

function startConnections(loop: AttackLoop, tenant: Tenant, target: ApiTarget): void {
  const core = `/api/v1/namespaces/${target.namespace}`;
  const subresources = `/apis/subresources.kubevirt.io/v1/namespaces/${target.namespace}`;
  const where = { host: "127.0.0.1", localAddress: SILENT_ADDRESS };
  loop.start(
    "watches that are not read",
    200,
    hold(tenant, [`GET ${core}/configmaps?watch=1 HTTP/1.1`, "host: a"]),
  );
  const post = [`POST ${core}/configmaps HTTP/1.1`, "host: a", "content-type: application/json"];
  loop.start(
    "bodies without their end",
    40,
    hold(tenant, [...post, "content-length: 3000000"], Buffer.alloc(2_999_999, " ")),
  );
  loop.start(
    "silent TCP connections",
    300,
    silence(() => connectTcp({ ...where, port: tenant.port }), "connect"),
  );
  for (const port of [tenant.port, ...target.ports]) {
    loop.start(
      `silent TLS connections to ${String(port)}`,
      100,
      silence(() => connectTls({ ...where, port, rejectUnauthorized: false }), "secureConnect"),
    );
  }
  const console = `${subresources}/virtualmachineinstances/${target.vm}/console`;
  loop.start("console streams", 40, hold(tenant, upgrade(console, "plain.kubevirt.io")));
  const attach = `${core}/pods/${target.pod}/attach?stdout=true`;
  loop.start("attach streams", 40, hold(tenant, upgrade(attach, "v4.channel.k8s.io")));
}

function startVms(loop: AttackLoop, tenant: Tenant, target: ApiTarget): void {
  const vms = `/apis/kubevirt.io/v1/namespaces/${target.namespace}/virtualmachines`;
  const subresources = `/apis/subresources.kubevirt.io/v1/namespaces/${target.namespace}`;
  const beyondLimit = vmText("beyond", 3500, "");
  const atLimit = "a".repeat(250 * KIB);
  const request = (method: string, path: string, body?: string): Attempt => {
    return async (note) => {
      note(await tenant.ask(method, path, body));
    };
  };
  loop.start("VMs beyond the limits", 4, request("POST", vms, beyondLimit));
  loop.start(
    "VMs at the limits",
    4,
    churn(tenant, vms, (name) => vmText(name, 64, atLimit)),
  );
  loop.start(
    "screenshots",
    8,
    request("GET", `${subresources}/virtualmachineinstances/${target.vm}/vnc/screenshot`),
  );
  loop.start("lists of VMs", 8, request("GET", vms));
  const nic = JSON.stringify({ name: "nic", networkAttachmentDefinitionName: target.network });
  const path = `${subresources}/virtualmachines/${target.vm}`;
  loop.start("plugs", 1, async (note) => {
    note(await tenant.ask("PUT", `${path}/addinterface`, nic));
    note(await tenant.ask("PUT", `${path}/removeinterface`, JSON.stringify({ name: "nic" })));
  });
}

function podText(name: string, image: string): string {
  return JSON.stringify({
    apiVersion: "v1",
    kind: "Pod",
    metadata: { name },
    spec: {
      securityContext: { runAsUser: 107, runAsGroup: 107, fsGroup: 107 },
      containers: [{ name: "main", image, command: ["sleep", "600"] }],
    },
  });
}

function startObjects(loop: AttackLoop, tenant: Tenant, target: ApiTarget): void {
  const core = `/api/v1/namespaces/${target.namespace}`;
  const networks = `/apis/k8s.cni.cncf.io/v1/namespaces/${target.namespace}/network-attachment-definitions`;
  loop.start(
    "Services of 256 ports",
    2,
    change(tenant, `${core}/services`, (turn) =>
      serviceText(`ports-${String(turn % MORE_SERVICES)}`, 1000 + (turn % 7)),
    ),
  );
  loop.start(
    "definitions with long texts",
    2,
    change(tenant, networks, (turn) =>
      definitionText(`long-${String(turn % 5)}`, 40_000 + (turn % 3)),
    ),
  );
  loop.start(
    "definitions beyond the limits",
    2,
    change(tenant, networks, () => definitionText("beyond", 500_000)),
  );
  const keys = range(200).map((index) => `key-${String(index)}`);
  loop.start(
    "a mounted ConfigMap",
    2,
    change(tenant, `${core}/configmaps`, (turn) => {
      const value = String(turn % 10).repeat(4 * KIB);
      const data = Object.fromEntries(keys.map((key) => [key, value]));
      return JSON.stringify({ metadata: { name: "mounted" }, data });
    }),
  );
  loop.start(
    "events",
    4,
    churn(tenant, `${core}/events`, (name) =>
      JSON.stringify({
        metadata: { name },
        involvedObject: { kind: "Pod", namespace: target.namespace, name: target.pod },
        reason: "Flood",
        message: "m".repeat(8000),
        type: "Normal",
      }),
    ),
  );
  loop.start(
    "pods",
    2,
    churn(tenant, `${core}/pods`, (name) => podText(name, target.image)),
  );
  loop.start("logs", 8, async (note) => {
    note(await tenant.ask("GET", `${core}/pods/${target.pod}/log?tailLines=1`));
  });
  const token = JSON.stringify({ spec: { expirationSeconds: 3600 } });
  loop.start("tokens", 2, async (note) => {
    note(await tenant.ask("POST", `${core}/serviceaccounts/default/token`, token));
  });
}

/** Starts the connections last: they use up the tenant's shares, so that its own requests wait for long. */
export async function startApiAttacks(loop: AttackLoop, target: ApiTarget): Promise<void> {
  const tenant = new Tenant(target.kubeconfig);
  startVms(loop, tenant, target);
  startObjects(loop, tenant, target);
  await loop.begun();
  startConnections(loop, tenant, target);
}
