// SPDX-License-Identifier: Apache-2.0
// Daemon that writes the nftables rules and EndpointSlices of Services, and answers DNS queries.
import { randomInt } from "node:crypto";
import type { KubeObject, Service } from "@patchbay/api/kubernetes";
import type { DaemonContext } from "@patchbay/daemon";
import {
  after,
  createEventRecorder,
  createQueue,
  done,
  keyOf,
  printKey,
  runReconciler,
  waitForCaches,
  type Next,
  type StartableCache,
} from "@patchbay/kube";
import { createFiles, createProcessRunner, listListeningPorts } from "@patchbay/os";
import type { Flags } from "./config.ts";
import { answerQuery, type AnswerDeps } from "./dns/answer.ts";
import { createForwarder } from "./dns/forwarder.ts";
import { serveNames } from "./dns/serve.ts";
import type { Zone } from "./dns/zone.ts";
import {
  dropDuplicates,
  createHostPortLookup,
  dropHostPorts,
  HOST_PORTS_CHECK_MS,
  listForwards,
  type Forward,
  type Ranges,
} from "./forward/forwards.ts";
import { ForwardTable, REFUSAL_RETRY_MS, reportUnforwarded } from "./forward/forward-table.ts";
import { buildPolicyTableName, findDnsAddress, prepareHost, buildTableName } from "./host/host.ts";
import { createServiceCounters } from "./metrics.ts";
import {
  listSlices,
  enqueuePoliciesOnChange,
  enqueueServicesOnChange,
  watchObjects,
  type Objects,
} from "./objects.ts";
import {
  createPolicyTable,
  listPodPolicies,
  type PolicyOfPod,
} from "./policies/service-policies.ts";
import { reconcileSlices } from "./slices/reconcile.ts";

const TABLE = "table";
const POLICIES = "policies";
const DNS_PORT = 53;
const ID_COUNT = 65_536;

/** Pause of the loops that write rules, because a tenant can change objects without end. Source of the maximum: kube-proxy, minSyncPeriod */
const PAUSE = { factor: 9, maxMs: 2000 };

function serviceKey(service: Service): string {
  return printKey(keyOf(service));
}

function allForwards(
  { services, slices }: Objects,
  ranges: Ranges,
  forwardsByKey: Map<string, readonly Forward[]>,
): readonly Forward[] {
  const listOf = (service: Service): readonly Forward[] => {
    const key = serviceKey(service);
    const listed = forwardsByKey.get(key) ?? listForwards(service, listSlices(slices, key), ranges);
    forwardsByKey.set(key, listed);
    return listed;
  };
  return dropDuplicates(services.list().flatMap(listOf));
}

function allPolicies({ policies, namespaces, pods }: Objects): readonly PolicyOfPod[] {
  return listPodPolicies({
    policies: policies.list(),
    pods: pods.list(),
    findNamespaceLabels: (name) => {
      const namespace = namespaces.find({ name });
      return namespace && (namespace.metadata.labels ?? {});
    },
  });
}

function createPolicyLoop(
  { clock, log, metrics, health, signal }: DaemonContext,
  objects: Objects,
  serviceNetwork: string,
): { readonly write: () => Promise<void>; readonly run: () => Promise<void> } {
  const queue = createQueue({ clock });
  enqueuePoliciesOnChange(objects, () => {
    queue.add(POLICIES);
  });
  const table = buildPolicyTableName(serviceNetwork);
  const writeTable = createPolicyTable({ runner: createProcessRunner(), log, table });
  const write = (): Promise<void> => writeTable(allPolicies(objects));
  const reconcile = async (): Promise<Next> => {
    await write();
    return done();
  };
  const watch = health.watchLoop(POLICIES);
  const loop = { log, clock, metrics, name: POLICIES, queue, watch, reconcile, pause: PAUSE };
  return { write, run: () => runReconciler(loop, signal) };
}

function createZone({ services, slices, pods }: Objects, ranges: Ranges, domain: string): Zone {
  return {
    domain,
    ranges,
    findService: (namespace, name) => services.find({ namespace, name }),
    slicesOf: (service) => listSlices(slices, serviceKey(service)),
    hasNamespace: (namespace) =>
      pods.listBy("namespace", namespace).length > 0 ||
      services.list().some(({ metadata }) => metadata.namespace === namespace),
  };
}

async function answerNames(
  { clock, log, signal }: DaemonContext,
  zone: Zone,
  countReply: AnswerDeps["countReply"],
): Promise<void> {
  const ownAddress = zone.ranges.dns;
  const randomId = (): number => randomInt(ID_COUNT);
  const forwardQuery = createForwarder({ files: createFiles(), clock, randomId, ownAddress });
  let rotation = 0;
  const deps: AnswerDeps = { zone, forwardQuery, nextRotation: () => (rotation += 1), countReply };
  await serveNames(
    {
      address: ownAddress,
      port: DNS_PORT,
      clock,
      log,
      answer: (bytes, dnsClient) => answerQuery(bytes, dnsClient, deps),
    },
    signal,
  );
}

const HOST_SOCKETS = "/proc/self/net";

function createForwardLoop(
  { client, clock, log }: Pick<DaemonContext, "client" | "clock" | "log">,
  objects: Objects,
  options: {
    readonly table: ForwardTable;
    readonly ranges: Ranges;
    readonly forwardsByKey: Map<string, readonly Forward[]>;
  },
): () => Promise<Next> {
  const { table, ranges, forwardsByKey } = options;
  const component = { component: "service-net" };
  const recorder = createEventRecorder({ store: client.store, clock, logger: log, ...component });
  const files = createFiles();
  let reported: { readonly text: string; readonly atMs: number } | undefined;
  const findHostPorts = createHostPortLookup(clock, async () => {
    return (await listListeningPorts(files, HOST_SOCKETS)) ?? [];
  });
  return async () => {
    const wanted = allForwards(objects, ranges, forwardsByKey);
    const nodePorts = wanted.flatMap(({ nodePort }) => (nodePort === undefined ? [] : [nodePort]));
    const free = dropHostPorts(wanted, await findHostPorts(nodePorts));
    const leftOut = [...free.leftOut, ...(await table.write(free.forwards))];
    const [text, nowMs] = [JSON.stringify(leftOut), clock.monotonicMs()];
    if (reported?.text !== text || nowMs - reported.atMs >= REFUSAL_RETRY_MS) {
      reported = { text, atMs: nowMs };
      reportUnforwarded(recorder, objects.services, leftOut);
    }
    if (nodePorts.length > 0) return after(HOST_PORTS_CHECK_MS);
    return leftOut.length === 0 ? done() : after(REFUSAL_RETRY_MS);
  };
}

/** Runs until the daemon stops. Leaves the rules and addresses on the host, so that connections to Services continue to work. */
export async function runServices(context: DaemonContext, flags: Flags): Promise<void> {
  const { client, clock, log, metrics, health, signal } = context;
  const { text: serviceNetwork } = flags.serviceSubnet;
  const dns = findDnsAddress(serviceNetwork);
  const ranges: Ranges = { services: flags.serviceSubnet, dns };
  const runner = createProcessRunner();
  const objects = watchObjects(client, log);
  const slicesQueue = createQueue({ clock });
  const tableQueue = createQueue({ clock });
  const forwardsByKey = new Map<string, readonly Forward[]>();
  enqueueServicesOnChange(objects, (key) => {
    forwardsByKey.delete(key);
    slicesQueue.add(key);
    tableQueue.add(TABLE);
  });
  const policies = createPolicyLoop(context, objects, serviceNetwork);
  const caches = Object.values<StartableCache<KubeObject>>({ ...objects });
  for (const cache of caches) cache.start(signal);
  await prepareHost(runner, serviceNetwork);
  await waitForCaches(caches, signal);
  const settings = {
    table: buildTableName(serviceNetwork),
    serviceNetwork,
    dns,
    podNetwork: flags.podSubnet.text,
    bridge: flags.bridge,
    limitedPorts: flags.limitedPorts,
  };
  const { countReply, countWrite } = createServiceCounters(metrics, () => table.count);
  const table = new ForwardTable({ runner, clock, log, settings, countWrite });
  const writeForwards = createForwardLoop(context, objects, { table, ranges, forwardsByKey });
  // The policies are written first, so that no Service forwards a connection that they forbid.
  await policies.write();
  const next = await writeForwards();
  if (next.kind === "after") tableQueue.addAfter(TABLE, next.ms);
  await answerNames(context, createZone(objects, ranges, flags.clusterDomain), countReply);
  context.ready();
  const loopDeps = { log, clock, metrics };
  await Promise.all([
    runReconciler(
      {
        ...loopDeps,
        name: "slices",
        queue: slicesQueue,
        watch: health.watchLoop("slices"),
        reconcile: (key) => reconcileSlices(key, objects, client.store),
      },
      signal,
    ),
    policies.run(),
    runReconciler(
      {
        ...loopDeps,
        name: "forwards",
        queue: tableQueue,
        watch: health.watchLoop("forwards"),
        reconcile: writeForwards,
        pause: PAUSE,
      },
      signal,
    ),
  ]);
}
