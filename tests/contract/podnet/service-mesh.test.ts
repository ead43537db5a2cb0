// SPDX-License-Identifier: Apache-2.0
// Traffic of a guest whose pod has a service mesh's proxy: small listeners take the places of Istio's ports.
import { spawn, type ChildProcess } from "node:child_process";
import type { MasqueradeWiring } from "@patchbay/core/nics";
import { eventually, run } from "@patchbay/support";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { addNic, makeNetwork, Namespaces } from "./links.ts";

const POD = "10.88.0.5";
const SERVER = "10.88.0.1";
const GATEWAY = "10.0.2.1";
const WIRING: MasqueradeWiring = {
  kind: "masquerade",
  podInterfaceName: "eth0",
  bridgeName: "k6t-eth0",
  tapName: "tap0",
  mac: "02:00:00:00:5e:01",
  mtu: 1500,
  owner: 107,
  queues: 1,
  ipv4: { gateway: `${GATEWAY}/24`, guest: "10.0.2.2" },
  ports: [],
  mesh: { podIpv4: POD },
};
/** Ports of the guest's applications, of which 22 bypasses the proxy. */
const APPLICATION = 8080;
const SSH = 22;
/** Istio's redirections in the pod, as istio-init writes them. Source: Istio "Understanding traffic routing". */
const ISTIO = `table ip istio {
  chain prerouting {
    type nat hook prerouting priority dstnat; policy accept;
    iifname "k6t-eth0" ip protocol tcp redirect to :15001
    tcp dport { 22, 15008, 15020, 15021, 15090 } return
    ip saddr 169.254.7.127 return
    iifname "eth0" ip protocol tcp redirect to :15006
  }
}
`;

const namespaces = new Namespaces();
const servers: ChildProcess[] = [];
let host: string;
let pod: string;
let guest: string;

function runNode(at: string, script: string): void {
  const argv = ["netns", "exec", at, process.execPath, "-e", script];
  servers.push(spawn("ip", argv, { stdio: "ignore" }));
}

/** Sends its name and the client's address on every connection. */
function serve(at: string, name: string, port: number): void {
  runNode(
    at,
    `require("net").createServer((s) => { s.on("error", () => 0); s.end("${name} " + s.remoteAddress); }).listen(${String(port)}, "0.0.0.0")`,
  );
}

/** Istio's sidecar: passes each connection on to the application's port at the pod's address, from 127.0.0.6. */
function serveSidecar(): void {
  runNode(
    pod,
    `const net = require("net");
     net.createServer((client) => {
       const app = net.connect({ host: "${POD}", port: ${String(APPLICATION)}, localAddress: "127.0.0.6" });
       for (const s of [client, app]) s.on("error", () => { client.destroy(); app.destroy(); });
       client.write("sidecar "); app.pipe(client);
     }).listen(15006, "0.0.0.0");`,
  );
}

interface Client {
  readonly from: string;
  readonly source?: string;
  readonly udp?: true;
}

function buildClientScript({ source, udp }: Client, address: string, port: number): string {
  if (udp) {
    return `const s = require("dgram").createSocket("udp4"); s.on("message", (m) => { console.log(String(m)); s.close(); });
      s.send("query", ${String(port)}, "${address}"); setTimeout(() => process.exit(), 2000).unref();`;
  }
  const options = { host: address, port, ...(source !== undefined && { localAddress: source }) };
  return `const s = require("net").connect(${JSON.stringify(options)}); s.pipe(process.stdout); s.on("error", () => 0);
    setTimeout(() => process.exit(), 2000).unref();`;
}

/** Returns what the server sends; empty if no server answers within 2 s. */
function query(from: string | Client, address: string, port: number): string {
  const client = typeof from === "string" ? { from } : from;
  const argv = ["netns", "exec", client.from, process.execPath, "-e"];
  return run("ip", ...argv, buildClientScript(client, address, port)).trim();
}

function addPod(): void {
  addNic({ host, pod }, { name: "eth0", kind: "veth", mac: "02:00:00:00:aa:05" });
  const set = (at: string, ...text: readonly string[]): string => run("ip", "-n", at, ...text);
  set(host, "addr", "add", `${SERVER}/24`, "dev", "br0");
  set(host, "addr", "add", "169.254.7.127/32", "dev", "br0");
  set(pod, "addr", "add", `${POD}/24`, "dev", "eth0");
  set(pod, "link", "set", "eth0", "up");
  set(pod, "route", "add", "default", "via", SERVER);
  const peer = ["peer", "name", "eth0", "address", WIRING.mac, "netns", guest];
  set(pod, "link", "add", "tap0", "type", "veth", ...peer);
  set(guest, "addr", "add", "10.0.2.2/24", "dev", "eth0");
  set(guest, "link", "set", "eth0", "up");
  set(guest, "route", "add", "default", "via", GATEWAY);
}

beforeAll(async () => {
  host = namespaces.add("host");
  run("ip", "-n", host, "link", "add", "br0", "type", "bridge");
  run("ip", "-n", host, "link", "set", "br0", "up");
  [pod, guest] = [namespaces.add("pod"), namespaces.add("guest")];
  addPod();
  run("ip", "netns", "exec", pod, "sh", "-c", `echo '${ISTIO}' | nft -f -`);
  await makeNetwork().wireTap(namespaces.open(pod), WIRING);
  for (const port of [APPLICATION, SSH, 15006, 15020]) serve(guest, "guest", port);
  serveSidecar();
  for (const port of [15001, 15020]) serve(pod, `proxy-${String(port)}`, port);
  await eventually(
    () =>
      query(host, POD, APPLICATION).includes("guest") &&
      query(host, POD, SSH) !== "" &&
      query(host, POD, 15020) !== "" &&
      query(guest, SERVER, 80) !== "",
    { withinMs: 20_000 },
  );
});

afterAll(() => {
  for (const server of servers) server.kill("SIGKILL");
  namespaces.close();
});

describe("a guest behind Istio's sidecar", () => {
  test("is reached through the sidecar from outside", () => {
    expect(query(host, POD, APPLICATION)).toBe(`sidecar guest ${GATEWAY}`);
  });

  test("reaches the network through the sidecar", () => {
    expect(query(guest, SERVER, 80)).toBe("proxy-15001 10.0.2.2");
  });

  test("is reached by SSH and UDP directly", async () => {
    expect(query(host, POD, SSH)).toBe(`guest ${SERVER}`);
    runNode(
      guest,
      `const s = require("dgram").createSocket("udp4"); s.on("message", (m, from) => s.send("guest " + from.address, from.port, from.address)); s.bind(5000)`,
    );
    const client = { from: host, udp: true } as const;
    await eventually(() => query(client, POD, 5000) === `guest ${SERVER}`, { withinMs: 10_000 });
  });

  test("leaves the proxy's ports to the pod, from outside and in the pod", () => {
    expect(query(host, POD, 15020)).toBe(`proxy-15020 ${SERVER}`);
    expect(query(pod, "127.0.0.1", 15020)).toBe("proxy-15020 127.0.0.1");
    expect(query(pod, POD, 15020)).toBe(`proxy-15020 ${POD}`);
  });

  test("is reached by the pod's programs at 127.0.0.1 and at the pod's address", () => {
    expect(query(pod, "127.0.0.1", APPLICATION)).toBe(`guest ${GATEWAY}`);
    expect(query(pod, POD, APPLICATION)).toBe(`guest ${POD}`);
  });

  test("answers the probes of an ambient mesh, from outside and in the pod", () => {
    const source = "169.254.7.127";
    expect(query({ from: host, source }, POD, APPLICATION)).toBe(`guest ${GATEWAY}`);
    run("ip", "-n", pod, "addr", "add", "169.254.7.127/32", "dev", "lo");
    expect(query({ from: pod, source }, POD, APPLICATION)).toBe(`guest ${GATEWAY}`);
    run("ip", "-n", pod, "addr", "del", "169.254.7.127/32", "dev", "lo");
  });

  test("is detected as wired, and is reached directly without a mesh", async () => {
    const netns = namespaces.open(pod);
    const { mesh, ...unmeshed } = WIRING;
    expect(mesh).toBeDefined();
    expect((await makeNetwork().observe(netns)).isWired(WIRING)).toBe(true);
    expect((await makeNetwork().observe(netns)).isWired(unmeshed)).toBe(false);
    run("ip", "netns", "exec", pod, "nft", "delete table ip istio");
    await makeNetwork().wireTap(netns, unmeshed);
    expect(query(host, POD, APPLICATION)).toBe(`guest ${SERVER}`);
  });
});
