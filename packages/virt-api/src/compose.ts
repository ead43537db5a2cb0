// SPDX-License-Identifier: Apache-2.0
// Brings caches, application and server together.
import { randomBytes } from "node:crypto";
import {
  KUBEVIRTS,
  networkConfigOf,
  VIRTUAL_MACHINE_INSTANCES,
  VIRTUAL_MACHINES,
  type ObjectMeta,
  type VirtualMachine,
  type VirtualMachineInstance,
  type VmiSpec,
} from "@patchbay/api";
import { hasVm, type MacOwner } from "@patchbay/core";
import {
  certificateInFiles,
  ClientAuthority,
  startServer,
  trustInFile,
  type DaemonContext,
  type KeyPair,
  type Source,
} from "@patchbay/daemon";
import { createCache, Turns, waitForCaches } from "@patchbay/kube";
import { createFiles } from "@patchbay/os";
import type { Cache } from "@patchbay/ports";
import { followFrontProxy, keepOwnCertificate } from "./certificates/cluster.ts";
import { createApp, type Callers } from "./http/app.ts";
import { callNameOf } from "./http/call-name.ts";
import type { Flags } from "./config.ts";
import { askApiServer } from "./networks/access-review.ts";
import { askForPods } from "./callers/token-pod.ts";

function toOwner(metadata: ObjectMeta, spec: VmiSpec): MacOwner {
  return { namespace: metadata.namespace ?? "", name: metadata.name, spec };
}

function listMacOwners(
  vms: Cache<VirtualMachine>,
  vmis: Cache<VirtualMachineInstance>,
): readonly MacOwner[] {
  const lone = vmis.list().filter((vmi) => !hasVm(vmi));
  return [
    ...vms.list().map((vm) => toOwner(vm.metadata, vm.spec.template.spec)),
    ...lone.map((vmi) => toOwner(vmi.metadata, vmi.spec)),
  ];
}

async function callersOf(context: DaemonContext, flags: Flags): Promise<Callers> {
  const files = createFiles();
  const { requestheaderClientCaFile: proxyCa, webhookClientCaFile: webhookCa } = flags;
  const trust =
    proxyCa === undefined
      ? await followFrontProxy(context)
      : trustInFile(files, { caFile: proxyCa, names: flags.requestheaderAllowedNames });
  const frontProxy = new ClientAuthority(trust);
  if (webhookCa === undefined) return { frontProxy };
  const names = flags.webhookAllowedNames;
  return {
    frontProxy,
    webhooks: new ClientAuthority(trustInFile(files, { caFile: webhookCa, names })),
  };
}

function certificateOf(context: DaemonContext, flags: Flags): Promise<Source<KeyPair>> {
  const { tlsCertFile: certFile, tlsPrivateKeyFile: keyFile } = flags;
  return certFile === undefined || keyFile === undefined
    ? keepOwnCertificate(context)
    : Promise.resolve(certificateInFiles(createFiles(), { certFile, keyFile }));
}

/** Serves until the signal is aborted. */
export async function runApi(context: DaemonContext, flags: Flags): Promise<void> {
  const { client, log, signal } = context;
  const vms = createCache(client.reflect(VIRTUAL_MACHINES), {
    logger: log,
    trim: ({ apiVersion, kind, metadata, spec }) => ({ apiVersion, kind, metadata, spec }),
  });
  const vmis = createCache(client.reflect(VIRTUAL_MACHINE_INSTANCES), {
    logger: log,
    trim: ({ apiVersion, kind, metadata, spec }) => ({ apiVersion, kind, metadata, spec }),
  });
  const kubevirts = createCache(client.reflect(KUBEVIRTS), { logger: log });
  const caches = [vms, vmis, kubevirts];
  for (const cache of caches) cache.start(signal);
  const [callers, certificate] = await Promise.all([
    callersOf(context, flags),
    certificateOf(context, flags),
  ]);
  const isOver = (): boolean => signal.aborted;
  if (isOver()) return;
  const deps = {
    store: client.store,
    log,
    randomBytes,
    turns: new Turns(),
    mayReadNetwork: askApiServer(client.store),
    nodeOfPod: askForPods(client.store),
    listMacOwners: () => listMacOwners(vms, vmis),
    networkConfig: () => networkConfigOf(kubevirts.list()[0]),
  };
  const { listenAddress, port } = flags;
  const clientAuthorities = Object.values(callers);
  const app = createApp(deps, callers);
  const server = await startServer(
    (request, response) => {
      context.metrics.countServed(callNameOf(request.url ?? ""));
      app(request, response);
    },
    { listenAddress, port, certificate, clientAuthorities },
    { log, signal },
  );
  // A stop that comes before the API server has answered ends the waiting too.
  await waitForCaches(caches, signal);
  if (!isOver()) {
    log.info("listening", { port: server.port });
    context.ready();
  }
  await server.closed;
}
