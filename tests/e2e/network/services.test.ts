// SPDX-License-Identifier: Apache-2.0
// Services lead to guests: from the host and from another guest, by address, node port and name; also while service-net
// is down.
import { execFileSync } from "node:child_process";
import { once } from "node:events";
import { Resolver } from "node:dns/promises";
import { readFileSync } from "node:fs";
import { createServer } from "node:http";
import { join } from "node:path";
import { eventually } from "@patchbay/support";
import { afterAll, beforeAll, expect, test } from "vitest";
import {
  addInterface,
  CHANGE_MS,
  expectGone,
  expectReady,
  guestNic,
  ifaceStatus,
  machine,
  removeInterface,
  setAddress,
} from "../machine.ts";

const [VM, CLIENT] = ["alpha", "beta"];
const TIMEOUT = { withinMs: CHANGE_MS };
const PORT = 8090;
/** A node port that is not assigned at random. Source: Kubernetes, "Avoiding collisions" of node ports. */
const HOST_PORT = 30_011;
const SERVICES = ["web", "web-node", "web-names", "web-blue", "web-taken"];
/** Iface on network blue, whose bridge has a host address during its requests. */
const NIC = "served";
const [HOST_ADDRESS, BRIDGE] = ["10.77.1.254/24", "pbt-blue"];

interface Service {
  readonly spec: {
    readonly clusterIP: string;
    readonly ports: readonly { readonly nodePort?: number }[];
  };
  readonly status?: { readonly conditions?: readonly unknown[] };
}

/** The machine's Service network in CIDR form. */
function serviceSubnet(): string {
  const text = readFileSync(join(machine.dataDir, "standalone.json"), "utf8");
  return (JSON.parse(text) as { readonly serviceSubnet: string }).serviceSubnet;
}

function service(name: string): Service {
  // The server's version of our object.
  return machine.read(`/api/v1/namespaces/default/services/${name}`) as Service;
}

function host(...argv: readonly [string, ...string[]]): string {
  const [program, ...args] = argv;
  return execFileSync(program, args, { encoding: "utf8" });
}

/** The reply to the host; undefined without one. */
async function fetched(address: string, port: number): Promise<string | undefined> {
  const url = `http://${address}:${String(port)}/`;
  return fetch(url, { signal: AbortSignal.timeout(CHANGE_MS) }).then(
    (answer) => answer.text(),
    () => undefined,
  );
}

async function inGuest(vm: string, command: string): Promise<string> {
  return eventually(async () => {
    const { code, lines } = await machine.console(vm).run(command, { timeoutMs: CHANGE_MS });
    return code === 0 ? lines.join("\n") : undefined;
  }, TIMEOUT);
}

/** State of Services on the host. */
function traces(): readonly string[] {
  const address = serviceSubnet().replace(/\.0\.0\/16$/, "");
  const tables = host("nft", "list", "tables").split("\n");
  const routes = host("ip", "-4", "route").split("\n");
  const addresses = host("ip", "-4", "addr", "show", "lo").split("\n");
  return [...tables, ...routes, ...addresses].filter((line) => line.includes(`${address}.`));
}

/** A guest serves its NICs' MACs; another guest prints the first line. */
const LOOPBACK = "fetched 00:00:00:00:00:00";
let mac = "";

beforeAll(async () => {
  for (const vm of [VM, CLIENT]) {
    const own = ifaceStatus(vm, "default")?.mac ?? "";
    await inGuest(vm, `lease ${await guestNic(vm, own)}`);
  }
  mac = ifaceStatus(VM, "default")?.mac ?? "";
  await inGuest(VM, `serve ${String(PORT)}`);
});

afterAll(() => {
  machine.deleteIfPresent("service", ...SERVICES);
});

test("a Service's address leads to the guest, from the host and from a guest", async () => {
  const options = ["--port", "80", "--target-port", String(PORT)];
  machine.patchbay("expose", "vm", VM, "--name", "web", ...options);
  const { clusterIP } = service("web").spec;
  expect(await eventually(() => fetched(clusterIP, 80), TIMEOUT)).toContain(mac);
  expect(await inGuest(CLIENT, `fetch ${clusterIP} 80`)).toContain(LOOPBACK);
  expect(await fetched(clusterIP, 81)).toBeUndefined();
});

test("kubectl shows its endpoints, in the older form too", async () => {
  const place = `${machine.findPod(VM)?.status?.podIP ?? ""}:${String(PORT)}`;
  const address = machine.findPod(VM)?.status?.podIP ?? "";
  const isListed = (): boolean =>
    JSON.stringify(machine.find("endpoints", "web") ?? {}).includes(`"${address}"`);
  await eventually(isListed, TIMEOUT);
  expect(machine.kubectl("get", "endpoints", "web", "--no-headers")).toContain(` ${place} `);
  expect(machine.kubectl("describe", "service", "web")).toMatch(
    new RegExp(`^Endpoints: +${place.replaceAll(".", String.raw`\.`)}$`, "m"),
  );
});

test("a node port leads to the guest", async () => {
  const options = ["--port", "80", "--target-port", String(PORT), "--type", "NodePort"];
  machine.patchbay("expose", "vmi", VM, "--name", "web-node", ...options);
  const nodePort = service("web-node").spec.ports[0]?.nodePort ?? 0;
  const node = machine.findPod(VM)?.status?.hostIP ?? "";
  expect(await eventually(() => fetched(node, nodePort), TIMEOUT)).toContain(mac);
  expect(await inGuest(CLIENT, `fetch ${node} ${String(nodePort)}`)).toContain(LOOPBACK);
});

test("a process of the host keeps its node port, and the Service's events say so", async () => {
  const server = createServer((_request, response) => response.end("the host")).listen(HOST_PORT);
  await once(server, "listening");
  try {
    machine.apply({
      apiVersion: "v1",
      kind: "Service",
      metadata: { name: "web-taken", namespace: "default" },
      spec: {
        type: "NodePort",
        selector: { "vm.kubevirt.io/name": VM },
        ports: [{ port: 80, targetPort: PORT, nodePort: HOST_PORT }],
      },
    });
    await eventually(() => {
      const events = JSON.stringify(machine.list("event"));
      return events.includes("ServiceNotForwarded") && events.includes(String(HOST_PORT));
    }, TIMEOUT);
    const node = machine.findPod(VM)?.status?.hostIP ?? "";
    expect(await fetched(node, HOST_PORT)).toBe("the host");
  } finally {
    server.close();
  }
});

test("a headless Service resolves to the guest's address, and the name server survives a kill", async () => {
  const options = ["--port", String(PORT), "--cluster-ip", "None"];
  machine.patchbay("expose", "vm", VM, "--name", "web-names", ...options);
  const resolver = new Resolver();
  resolver.setServers([serviceSubnet().replace(/0\/16$/, "10")]);
  const name = "web-names.default.svc.cluster.local";
  const pod = machine.findPod(VM)?.status?.podIP ?? "";
  const requested = (): Promise<readonly string[]> => resolver.resolve4(name).catch(() => []);
  await eventually(async () => (await requested()).includes(pod), TIMEOUT);
  expect(await resolver.resolve4("web.default.svc.cluster.local")).toEqual([
    service("web").spec.clusterIP,
  ]);
  const pid = machine.pidOf("service-net");
  process.kill(pid, "SIGKILL");
  // Existing rules need no running process.
  expect(await fetched(service("web").spec.clusterIP, 80)).toContain(mac);
  await eventually(() => machine.pidOf("service-net") !== pid, TIMEOUT);
  await eventually(async () => (await requested()).includes(pod), TIMEOUT);
});

test("a changed Service leads to its new endpoints, or to no endpoint", async () => {
  const { clusterIP } = service("web").spec;
  const change = (spec: object): void => {
    machine.patch("service", "web", { spec });
  };
  const isAnswered = async (): Promise<boolean> => (await fetched(clusterIP, 80)) !== undefined;
  const ports = (targetPort: number) => ({ ports: [{ port: 80, targetPort }] });
  change(ports(PORT + 1));
  await eventually(async () => !(await isAnswered()), TIMEOUT);
  change(ports(PORT));
  await eventually(isAnswered, TIMEOUT);
  change({ selector: { nobody: "has it" } });
  await eventually(async () => !(await isAnswered()), TIMEOUT);
});

/** The path from the host to the Service's endpoints, for error messages. */
function describePath(name: string): string {
  const slices = machine.read(
    `/apis/discovery.k8s.io/v1/namespaces/default/endpointslices?labelSelector=kubernetes.io/service-name%3D${name}`,
  );
  return [
    JSON.stringify(service(name)),
    JSON.stringify(slices),
    JSON.stringify(machine.findVmi(VM)?.status),
    host("nft", "list", "table", "ip", `patchbay-services-${serviceSubnet().split("/")[0] ?? ""}`),
    host("ip", "addr", "show", "dev", BRIDGE),
    host("ip", "neigh", "show", "dev", BRIDGE),
    host("ip", "route", "get", service(name).spec.clusterIP),
  ].join("\n");
}

/** Network blue has no gateway, so the host joins it temporarily. */
async function withHostOnBlue(act: () => Promise<void>): Promise<void> {
  host("ip", "addr", "add", HOST_ADDRESS, "dev", BRIDGE);
  try {
    await act();
  } finally {
    host("ip", "addr", "del", HOST_ADDRESS, "dev", BRIDGE);
  }
}

test("a Service leads to a guest's address on the network that it names", async () => {
  addInterface(VM, { name: NIC, network: "blue" });
  await expectReady(VM, NIC);
  const attachments = machine.findVmi(VM)?.status?.attachments ?? [];
  const [ip = ""] = attachments.find(({ name }) => name === NIC)?.ips ?? [];
  await setAddress(VM, NIC, `${ip}/24`);
  await withHostOnBlue(async () => {
    const annotations = {
      "k8s.v1.cni.cncf.io/service-network": "blue",
      "patchbay.io/service-selector": `vm.kubevirt.io/name=${VM}`,
    };
    machine.apply({
      apiVersion: "v1",
      kind: "Service",
      metadata: { name: "web-blue", annotations },
      spec: { ports: [{ port: 80, targetPort: PORT }] },
    });
    const { clusterIP } = service("web-blue").spec;
    const page = await eventually(() => fetched(clusterIP, 80), TIMEOUT).catch((cause: unknown) => {
      throw new Error(describePath("web-blue"), { cause });
    });
    expect(page).toContain(mac);
    // The other guest has no NIC on this network.
    expect(await inGuest(CLIENT, `fetch ${clusterIP} 80`)).toContain(LOOPBACK);
    await expect
      .poll(() => service("web-blue").status?.conditions, { timeout: CHANGE_MS })
      .toMatchObject([
        { type: "patchbay.io/NetworkReachable", status: "Unknown", reason: "NoNodeAddress" },
      ]);
    const change = { spec: { ports: [{ port: 80, targetPort: PORT + 1 }] } };
    machine.patch("service", "web-blue", change);
    await eventually(async () => (await fetched(clusterIP, 80)) === undefined, TIMEOUT);
  });
  const annotations = { "patchbay.io/service-selector": null };
  machine.patch("service", "web-blue", { metadata: { annotations } });
  const slices = "/apis/discovery.k8s.io/v1/namespaces/default/endpointslices";
  await expect
    .poll(() => machine.read(`${slices}?labelSelector=kubernetes.io/service-name%3Dweb-blue`), {
      timeout: CHANGE_MS,
    })
    .toMatchObject({ items: [] });
  removeInterface(VM, NIC);
  await expectGone(VM, NIC);
});

test("rejects invalid Services and leaves nothing", async () => {
  const { clusterIP } = service("web").spec;
  const before = traces();
  machine.delete("service", ...SERVICES);
  await eventually(async () => (await fetched(clusterIP, 80)) === undefined, TIMEOUT);
  await expect
    .poll(() => machine.read("/apis/discovery.k8s.io/v1/namespaces/default/endpointslices"), {
      timeout: CHANGE_MS,
    })
    .toMatchObject({ items: [] });
  const names = (): readonly string[] =>
    machine.list("endpoints").map(({ metadata }) => metadata.name);
  await eventually(() => !names().some((name) => name.startsWith("web")), TIMEOUT);
  expect(traces()).toEqual(before);
});
