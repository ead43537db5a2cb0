// SPDX-License-Identifier: Apache-2.0
// patchbay expose: creates a Service for a VM, with virtctl's syntax.
import type { Command, Context } from "../../command.ts";
import { argumentAt, textOption, type Input } from "../../input.ts";

/** Names of the kinds VM and VMI in virtctl. Source: KubeVirt v1.9 pkg/virtctl/expose. */
const VM_KINDS = ["vm", "vms", "virtualmachine", "virtualmachines"];
const VMI_KINDS = ["vmi", "vmis", "virtualmachineinstance", "virtualmachineinstances"];

async function parseIsVmi(input: Input): Promise<boolean> {
  const kind = argumentAt(input, 0).toLowerCase();
  if ([...VM_KINDS, ...VMI_KINDS].includes(kind)) return VMI_KINDS.includes(kind);
  const { AppError } = await import("@patchbay/base");
  const reason = `${kind} is not a kind that can be exposed: vm or vmi`;
  throw new AppError("FLAG_INVALID", { flag: "<type>", reason });
}

function portOption(input: Input, name: string): number | undefined {
  const value = input.options[name];
  return typeof value === "number" ? value : undefined;
}

function readSettings(input: Input) {
  const [port, nodePort] = [portOption(input, "port"), portOption(input, "nodePort")];
  const targetPort = textOption(input, "targetPort");
  const [portName, clusterIP] = [textOption(input, "portName"), textOption(input, "clusterIp")];
  return {
    name: textOption(input, "name") ?? "",
    protocol: textOption(input, "protocol") ?? "TCP",
    type: textOption(input, "type") ?? "ClusterIP",
    ...(port !== undefined && { port }),
    ...(nodePort !== undefined && { nodePort }),
    ...(targetPort !== undefined && { targetPort }),
    ...(portName !== undefined && { portName }),
    ...(clusterIP !== undefined && { clusterIP }),
  };
}

async function run(context: Context, input: Input): Promise<void> {
  const isVmi = await parseIsVmi(input);
  const { SERVICES } = await import("@patchbay/api");
  const { withSession } = await import("../../session.ts");
  const { findTarget } = await import("../../session.ts");
  const { printResult } = await import("../../print/output.ts");
  const { buildService } = await import("./service-object.ts");
  await withSession(context, async (session) => {
    const target = argumentAt(input, 1);
    const { namespace } = session;
    const query = { name: target, isVmi };
    const { vm, vmi } = await findTarget(session, query, context);
    const spec = vm === undefined || isVmi ? vmi?.spec : vm.spec.template.spec;
    const service = buildService({ ...readSettings(input), target, namespace, spec });
    const { signal } = context;
    const created = await session.client.store.create(SERVICES, service, { signal });
    const { name } = service.metadata;
    const kind = argumentAt(input, 0);
    await printResult(context, {
      table: () => `Service ${name} successfully exposed for ${kind} ${target}\n`,
      data: created,
      names: [`service/${name}`],
    });
  });
}

export const expose: Command = {
  name: "expose",
  args: ["<type>", "<name>"],
  summary: "Create a Service for a VM; TYPE is vm or vmi",
  flags: [
    { flags: "--name <name>", description: "name of the Service", required: true },
    {
      flags: "--port <port>",
      description: "port of the Service (default: the ports that the VM's interface names)",
      kind: "port",
    },
    {
      flags: "--target-port <port>",
      description: "port of the VM, a number or a name (default: the Service's)",
    },
    {
      flags: "--type <type>",
      description: "type of the Service",
      choices: ["ClusterIP", "NodePort", "LoadBalancer"],
      fallback: "ClusterIP",
    },
    {
      flags: "--protocol <protocol>",
      description: "protocol of the port",
      choices: ["TCP", "UDP"],
      fallback: "TCP",
    },
    {
      flags: "--node-port <port>",
      description: "port on the nodes, 30000 to 32767 (default: a free one)",
      kind: "port",
    },
    {
      flags: "--cluster-ip <ip>",
      description: "address of the Service; None: a headless Service (default: a free one)",
    },
    { flags: "--port-name <name>", description: "name of the port" },
  ],
  run,
};
