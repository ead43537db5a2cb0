// SPDX-License-Identifier: Apache-2.0
// Network policies at the taps of guests: each form of policy decides on connections of real namespaces.
import { execFile, spawn, type ChildProcess } from "node:child_process";
import { promisify } from "node:util";
import { names } from "@patchbay/api";
import type { NetworkPolicy } from "@patchbay/api/kubernetes";
import type { NetnsHandle } from "@patchbay/core/interfaces";
import {
  planNetworkPolicies,
  planPodPolicy,
  toPolicyVm,
  type NicPolicy,
  type PolicyPod,
  type PolicyVm,
} from "@patchbay/core/policies";
import { aVmi, eventually, run } from "@patchbay/support";
import { afterAll, afterEach, beforeAll, describe, expect, test } from "vitest";
import { addGuest, addHost, guestWiring, makeNetwork, Namespaces, ping, PREFIX } from "./links.ts";

const execute = promisify(execFile);

/** Listens on TCP ports, and answers each datagram of the same UDP ports. */
const SERVE = `
for (const port of process.argv.slice(1).map(Number)) {
  require("net").createServer((s) => { s.on("error", () => 0); s.end("x"); }).listen(port, "::");
  const udp = require("dgram").createSocket("udp6");
  udp.on("message", (_, from) => udp.send("x", from.port, from.address));
  udp.bind(port, "::");
}`;
/** Tries all targets at once, each as PROTOCOL/ADDRESS/PORT, and prints those that answered. */
const PROBE = `
const probe = (target) => new Promise((resolve) => {
  const [protocol, host, port] = target.split("/");
  const timer = setTimeout(() => resolve([]), Number(process.argv[1]));
  const done = () => { clearTimeout(timer); resolve([target]); };
  if (protocol === "tcp") require("net").connect({ host, port }).on("connect", done).on("error", () => 0);
  else {
    const udp = require("dgram").createSocket(host.includes(":") ? "udp6" : "udp4").on("message", done);
    udp.on("error", () => 0).send("x", Number(port), host);
  }
});
Promise.all(process.argv.slice(2).map(probe)).then((all) => {
  process.stdout.write(all.flat().join(" "));
  process.exit();
});`;
const PORTS = [80, 443, 8080];
const PROBE_TIMEOUT_MS = 500;
const LIMIT = { withinMs: 5000 };

const namespaces = new Namespaces();
const network = makeNetwork();
const servers: ChildProcess[] = [];
const guests: string[] = [];
let host: string;
let netns: NetnsHandle;

async function answers(from: string, ...targets: readonly string[]): Promise<readonly string[]> {
  const node = [process.execPath, "-e", PROBE, String(PROBE_TIMEOUT_MS), ...targets];
  const { stdout } = await execute("ip", ["netns", "exec", from, ...node]);
  return stdout.split(" ").filter((target) => target !== "");
}

function aPod(number: number, namespace: string, labels: PolicyPod["labels"]): PolicyPod {
  return {
    namespace,
    name: `pod${String(number)}`,
    uid: String(number),
    labels,
    addresses: [`10.9.0.${String(number)}`, `fd09::${String(number)}`],
    namedPorts: [{ name: "web", protocol: "TCP", port: 80 }],
  };
}

/** Guest 1 is restricted. Guest 2 is in its namespace, and guest 3 in another namespace. */
const PODS = [
  aPod(1, "blue", { app: "db" }),
  aPod(2, "blue", { app: "web" }),
  aPod(3, "red", { app: "web" }),
];
const NAMESPACE_LABELS: Readonly<Record<string, Readonly<Record<string, string>>>> = {
  blue: { team: "blue" },
  red: { team: "red" },
};

type Spec = NonNullable<NetworkPolicy["spec"]>;

function plan(...specs: readonly Spec[]): NicPolicy | undefined {
  const [pod = aPod(1, "blue", {})] = PODS;
  const policies = specs.map((spec, index) => ({
    apiVersion: "networking.k8s.io/v1",
    kind: "NetworkPolicy",
    metadata: { name: `policy${String(index)}`, namespace: "blue" },
    spec,
  }));
  const findNamespaceLabels = (name: string) => NAMESPACE_LABELS[name];
  return planPodPolicy({ pod, policies, pods: PODS, findNamespaceLabels }).policy;
}

const [LAN, OTHER_LAN] = ["blue/lan", "blue/other"];

/** The pod as a VM. Its status has the addresses on the network of these guests, and its annotation those of another guest. */
function toVm({ addresses, ...pod }: PolicyPod): PolicyVm {
  const { namespace, name, uid, labels } = pod;
  const forged = JSON.stringify([{ name: LAN, ips: ["10.9.0.2", "10.9.0.3"] }]);
  const attachment = { name: "lan", networkName: LAN, podInterfaceName: "pod1" };
  const vmi = aVmi({
    status: { attachments: [{ ...attachment, state: "Attached", ips: [...addresses] }] },
  });
  const annotations = { [names.NETWORK_STATUS_ANNOTATION]: forged };
  const vm = toPolicyVm({ ...vmi, metadata: { namespace, name, uid, labels, annotations } });
  if (vm === undefined) throw new Error("the VM has ended");
  return vm;
}

function planOnLan(networks: string, spec: Spec): NicPolicy | undefined {
  const vms = PODS.map(toVm);
  const [vm] = vms;
  if (vm === undefined) throw new Error("there is no VM");
  const policy = {
    apiVersion: "k8s.cni.cncf.io/v1beta1",
    kind: "MultiNetworkPolicy",
    metadata: {
      name: "policy",
      namespace: "blue",
      annotations: { [names.POLICY_FOR_ANNOTATION]: networks },
    },
    spec,
  };
  const findNamespaceLabels = (name: string) => NAMESPACE_LABELS[name];
  const facts = { vm, vms, policies: [policy], findNamespaceLabels, isGuarded: () => false };
  return planNetworkPolicies(facts).policies[LAN];
}

async function restrict(policy: NicPolicy | undefined): Promise<void> {
  const wiring = { ...guestWiring(1), ...(policy && { policy }) };
  await network.wireTap(netns, wiring);
  const view = await network.observe(netns);
  expect([view.isWired(wiring), view.hasPolicy(wiring)]).toEqual([true, true]);
}

beforeAll(async () => {
  host = addHost(namespaces);
  run("ip", "-n", host, "addr", "add", "10.9.0.254/24", "dev", "br0");
  for (const number of [1, 2, 3]) {
    const guest = await addGuest({ namespaces, host }, number, "veth");
    guests.push(guest);
    const node = [process.execPath, "-e", SERVE, ...PORTS.map(String)];
    servers.push(spawn("ip", ["netns", "exec", guest, ...node], { stdio: "ignore" }));
  }
  netns = namespaces.open(`${PREFIX}-pod1`);
  const [one = "", two = ""] = guests;
  await eventually(async () => {
    const inward = await answers(two, "tcp/10.9.0.1/80", "udp/10.9.0.1/8080");
    const outward = await answers(one, "tcp/10.9.0.2/80", "tcp/10.9.0.3/80");
    return inward.length + outward.length === 4;
  }, LIMIT);
});
afterEach(async () => {
  await restrict(undefined);
});
afterAll(() => {
  for (const server of servers) server.kill("SIGKILL");
  namespaces.close();
});

interface Case {
  readonly name: string;
  readonly specs: readonly Spec[];
  /** Targets that answer guest 2, guest 3, and guest 1 as client of guests 2 and 3. */
  readonly want: readonly [second: string, third: string, out: string];
}

const ALL = "80 443 8080";
const EVERYONE: Spec = { podSelector: {} };
const PEERS = {
  ownWeb: { podSelector: { matchLabels: { app: "web" } } },
  redPods: { namespaceSelector: { matchLabels: { team: "red" } } },
} as const;

describe("connections between guests", () => {
  test.each<Case>([
    { name: "without policies, all", specs: [], want: [ALL, ALL, "2 3"] },
    {
      name: "of another pod's policy, all",
      specs: [{ podSelector: { matchLabels: { app: "other" } } }],
      want: [ALL, ALL, "2 3"],
    },
    { name: "of an isolated guest, only its own", specs: [EVERYONE], want: ["", "", "2 3"] },
    {
      name: "of a guest isolated in both directions, none",
      specs: [{ ...EVERYONE, policyTypes: ["Ingress", "Egress"] }],
      want: ["", "", ""],
    },
    {
      name: "with a rule without peers and ports, all",
      specs: [{ ...EVERYONE, ingress: [{}] }],
      want: [ALL, ALL, "2 3"],
    },
    {
      name: "of pods in the same namespace",
      specs: [{ ...EVERYONE, ingress: [{ from: [PEERS.ownWeb] }] }],
      want: [ALL, "", "2 3"],
    },
    {
      name: "of other namespaces",
      specs: [{ ...EVERYONE, ingress: [{ from: [PEERS.redPods] }] }],
      want: ["", ALL, "2 3"],
    },
    {
      name: "of pods that match both selectors of one peer",
      specs: [{ ...EVERYONE, ingress: [{ from: [{ ...PEERS.redPods, podSelector: {} }] }] }],
      want: ["", ALL, "2 3"],
    },
    {
      name: "of any of several peers",
      specs: [{ ...EVERYONE, ingress: [{ from: [PEERS.ownWeb, PEERS.redPods] }] }],
      want: [ALL, ALL, "2 3"],
    },
    {
      name: "to a port, a range and a named port",
      specs: [
        {
          ...EVERYONE,
          ingress: [
            { from: [PEERS.ownWeb], ports: [{ port: 400, endPort: 500 }] },
            { from: [PEERS.redPods], ports: [{ port: "web" }] },
          ],
        },
      ],
      want: ["443", "80", "2 3"],
    },
    {
      name: "of a block with an exception",
      specs: [
        {
          ...EVERYONE,
          ingress: [{ from: [{ ipBlock: { cidr: "10.9.0.0/24", except: ["10.9.0.3/32"] } }] }],
        },
      ],
      want: [ALL, "", "2 3"],
    },
    {
      name: "of several policies, the sum",
      specs: [
        { ...EVERYONE, ingress: [{ ports: [{ port: 80 }] }] },
        { ...EVERYONE, ingress: [{ from: [PEERS.redPods] }] },
      ],
      want: ["80", ALL, "2 3"],
    },
    {
      name: "to peers of an egress rule, by named port",
      specs: [
        {
          ...EVERYONE,
          policyTypes: ["Egress"],
          egress: [{ to: [PEERS.redPods], ports: [{ port: "web" }] }],
        },
      ],
      want: [ALL, ALL, "3"],
    },
  ])("pass $name", async ({ specs, want }) => {
    await restrict(plan(...specs));
    const [one = "", two = "", three = ""] = guests;
    const ports = PORTS.map((port) => `tcp/10.9.0.1/${String(port)}`);
    const [second, third, out] = await Promise.all([
      answers(two, ...ports),
      answers(three, ...ports),
      answers(one, "tcp/10.9.0.2/80", "tcp/10.9.0.3/80"),
    ]);
    const portsOf = (targets: readonly string[]): string =>
      targets.map((target) => target.split("/")[2]).join(" ");
    expect([
      portsOf(second),
      portsOf(third),
      out.map((target) => target.split("/")[1]?.at(-1)).join(" "),
    ]).toEqual(want);
  });
});

describe("a policy of a secondary network", () => {
  const fromPeers = async (): Promise<readonly number[]> => {
    const [, two = "", three = ""] = guests;
    const reached = await Promise.all(
      [two, three].map((guest) => answers(guest, "tcp/10.9.0.1/80", "udp/10.9.0.1/8080")),
    );
    return reached.map(({ length }) => length);
  };

  test("allows VMs by the addresses in their status, and ignores annotations", async () => {
    await restrict(planOnLan("lan", { ...EVERYONE, ingress: [{ from: [PEERS.ownWeb] }] }));
    expect(await fromPeers()).toEqual([2, 0]);
    await restrict(planOnLan("lan", { ...EVERYONE, ingress: [{ from: [PEERS.redPods] }] }));
    expect(await fromPeers()).toEqual([0, 2]);
    const self = { podSelector: { matchLabels: { app: "db" } } };
    await restrict(planOnLan("lan", { ...EVERYONE, ingress: [{ from: [self] }] }));
    expect(await fromPeers()).toEqual([0, 0]);
  });

  test("isolates the guest on the networks that it names, and on no other", async () => {
    await restrict(planOnLan(OTHER_LAN, EVERYONE));
    expect(await fromPeers()).toEqual([2, 2]);
    await restrict(planOnLan(`${OTHER_LAN}, ${LAN}`, EVERYONE));
    expect(await fromPeers()).toEqual([0, 0]);
  });
});

describe("an isolated guest", () => {
  test("receives answers over UDP, IPv6 and ICMP, large packets too, and nothing else", async () => {
    await restrict(plan(EVERYONE));
    const [one = "", two = ""] = guests;
    const targets = ["udp/10.9.0.2/8080", "tcp/fd09::2/80", "udp/fd09::2/8080"];
    expect(await answers(one, ...targets)).toEqual(targets);
    expect(ping(one, "10.9.0.2")).toContain(" 0% packet loss");
    expect(ping(one, "-6", "fd09::2")).toContain(" 0% packet loss");
    expect(ping(one, "-s", "4000", "10.9.0.2")).toContain(" 0% packet loss");
    const back = ["udp/10.9.0.1/8080", "tcp/fd09::1/80", "udp/fd09::1/8080", "tcp/10.9.0.1/80"];
    expect(await answers(two, ...back)).toEqual([]);
    expect(() => ping(two, "10.9.0.1")).toThrow("Command failed");
    expect(() => ping(two, "-6", "fd09::1")).toThrow("Command failed");
  });

  test("is reachable from the node", async () => {
    await restrict({ ...plan(EVERYONE), exempt: ["10.9.0.254"] });
    expect(await answers(host, "tcp/10.9.0.1/80")).toEqual(["tcp/10.9.0.1/80"]);
    expect(await answers(guests[1] ?? "", "tcp/10.9.0.1/80")).toEqual([]);
  });

  test("retains its connections when the policy changes", async () => {
    const [one = "", two = ""] = guests;
    await restrict(plan({ ...EVERYONE, ingress: [{ from: [PEERS.ownWeb] }] }));
    const script = `
const server = require("net").createServer((s) => { s.pipe(s); }).listen(9000, "::");`;
    const node = [process.execPath, "-e", script];
    servers.push(spawn("ip", ["netns", "exec", one, ...node], { stdio: "ignore" }));
    await eventually(async () => (await answers(two, "tcp/10.9.0.1/9000")).length === 1, LIMIT);
    const echo = spawn("ip", ["netns", "exec", two, "busybox", "nc", "10.9.0.1", "9000"]);
    servers.push(echo);
    let received = "";
    echo.stdout.on("data", (chunk: Buffer) => (received += String(chunk)));
    echo.stdin.write("one\n");
    await eventually(() => received === "one\n", LIMIT);
    await restrict(plan({ ...EVERYONE, policyTypes: ["Ingress", "Egress"] }));
    echo.stdin.write("two\n");
    await eventually(() => received === "one\ntwo\n", LIMIT);
    expect(await answers(two, "tcp/10.9.0.1/9000")).toEqual([]);
  });
});
