// SPDX-License-Identifier: Apache-2.0
// Rules for masquerade, ports, port security, MTU, queues and DHCP options of interfaces. Source: KubeVirt
// pkg/network/admitter/netiface.go.
import type { Cause } from "../kinds/kubernetes/meta.ts";
import { CLAIMS_GATE, type NicGate } from "../kinds/kubevirt-config.ts";
import {
  isAbsent,
  isDefaultNetwork,
  type Iface,
  isSecurityMode,
  MTU_MAX,
  MTU_MIN,
  QUEUES_MAX,
  SECURITY_MODES,
  type DhcpOptions,
} from "../kinds/network.ts";
import { parseIp, parseNatPrefix, parseSloppyIp } from "../values/ip.ts";
import { isNicMac } from "../values/mac.ts";
import { findByName } from "../values/memoize.ts";
import type { VmiSpec } from "../kinds/vmi-spec.ts";
import { listNewClaimFields } from "./claimed-networks.ts";
import { bandwidthIsEnforceable } from "./iface-bandwidth.ts";
import {
  causeIf,
  findIfaceNetwork,
  forEachIface,
  forEachNetwork,
  ifacePath,
  type Rule,
} from "./rule.ts";

const PORT_MAX = 65_535;
const RANGES_MAX = 10;
/** Maximum length of the lists of allowed MACs and addresses. Each entry adds a packet filter rule. */
const ALLOWED_ENTRIES_MAX = 64;
const PROTOCOLS: readonly string[] = ["TCP", "UDP"];

function buildInvalidCause(field: string, message: string): Cause {
  return { reason: "FieldValueInvalid", field, message };
}

const natSubnetsFit = forEachNetwork(({ pod = {} }, path) => [
  ...causeIf(
    parseNatPrefix(pod.vmNetworkCIDR, 4) === undefined,
    buildInvalidCause(
      `${path}.pod.vmNetworkCIDR`,
      `${pod.vmNetworkCIDR ?? ""} is not an IPv4 subnet with room for two hosts; an example is 10.0.2.0/24`,
    ),
  ),
  ...causeIf(
    parseNatPrefix(pod.vmIPv6NetworkCIDR, 6) === undefined,
    buildInvalidCause(
      `${path}.pod.vmIPv6NetworkCIDR`,
      `${pod.vmIPv6NetworkCIDR ?? ""} is not an IPv6 subnet with room for two hosts; an example is fd10:0:2::/120`,
    ),
  ),
]);

function isPort(port: number): boolean {
  return port >= 1 && port <= PORT_MAX;
}

function listProtocolCauses(protocol: string, field: string): readonly Cause[] {
  const message = "Unknown protocol, only TCP or UDP allowed";
  return causeIf(!PROTOCOLS.includes(protocol), buildInvalidCause(`${field}.protocol`, message));
}

const portsAreNumbers = forEachIface(({ ports = [] }, path) =>
  ports.flatMap(({ port, protocol = "" }, index) => {
    const field = `${path}.ports[${String(index)}]`;
    const message = "Port field must be in range 0 < x < 65536.";
    return [
      ...causeIf(!isPort(port), buildInvalidCause(`${field}.port`, message)),
      ...(protocol === "" ? [] : listProtocolCauses(protocol, field)),
    ];
  }),
);

const rangesAreValid = forEachIface(({ portRanges = [] }, path) => [
  ...causeIf(
    portRanges.length > RANGES_MAX,
    buildInvalidCause(
      `${path}.portRanges`,
      `there can be at most ${String(RANGES_MAX)} portRanges`,
    ),
  ),
  ...portRanges.flatMap(({ protocol, start, end }, index) => {
    const field = `${path}.portRanges[${String(index)}]`;
    const message = (name: string): string =>
      `${name} must be a valid port number, 0 < x < ${String(PORT_MAX + 1)}`;
    return [
      ...listProtocolCauses(protocol, field),
      ...causeIf(!isPort(start), buildInvalidCause(`${field}.start`, message("Start"))),
      ...causeIf(!isPort(end), buildInvalidCause(`${field}.end`, message("End"))),
      ...causeIf(
        start > end,
        buildInvalidCause(`${field}.start`, "Start must be less than or equal to end"),
      ),
    ];
  }),
]);

const rangesNeedMasquerade = forEachIface(({ masquerade, ports = [], portRanges = [] }, path) => {
  if (portRanges.length === 0) return [];
  const field = `${path}.name`;
  return [
    ...causeIf(
      masquerade === undefined,
      buildInvalidCause(field, "portRanges are only supported on masquerade interfaces"),
    ),
    ...causeIf(
      ports.length > 0,
      buildInvalidCause(field, "Cannot define both ports and portRanges on interface"),
    ),
  ];
});

type PortRange = NonNullable<Iface["portRanges"]>[number];

function printRange({ start, end }: PortRange): string {
  return `[${String(start)}-${String(end)}]`;
}

/** Rejects overlapping ranges of one protocol. Skips reversed ranges, which rangesAreValid rejects. */
const rangesDoNotOverlap = forEachIface(({ portRanges = [] }, path) =>
  PROTOCOLS.flatMap((protocol) => {
    const ranges = portRanges
      .filter((range) => range.protocol === protocol && range.start <= range.end)
      .toSorted((left, right) => left.start - right.start);
    let firstUnended = 0;
    return ranges.flatMap((range, index) => {
      while (firstUnended < index && (ranges[firstUnended]?.end ?? 0) < range.start)
        firstUnended += 1;
      const overlapping = firstUnended < index ? ranges[firstUnended] : undefined;
      if (overlapping === undefined) return [];
      const message = `${protocol} portRanges ${printRange(overlapping)} and ${printRange(range)} overlap`;
      return [buildInvalidCause(`${path}.portRanges`, message)];
    });
  }),
);

function listCauses(
  list: readonly string[] | undefined,
  field: string,
  check: { readonly isValid: (text: string) => boolean; readonly message: string },
): readonly Cause[] {
  const entries = list ?? [];
  return [
    ...causeIf(
      entries.length > ALLOWED_ENTRIES_MAX,
      buildInvalidCause(field, `there can be at most ${String(ALLOWED_ENTRIES_MAX)} entries`),
    ),
    ...entries.flatMap((text, index) =>
      causeIf(
        !check.isValid(text),
        buildInvalidCause(`${field}[${String(index)}]`, `${text} ${check.message}`),
      ),
    ),
  ];
}

const securityIsKnown = forEachIface(({ portSecurity = {} }, path): readonly Cause[] => {
  const { mode = "", allowedMACs, allowedAddresses } = portSecurity;
  const field = `${path}.portSecurity`;
  const message = `portSecurity mode must be one of ${SECURITY_MODES.join(", ")}`;
  return [
    ...causeIf(mode !== "" && !isSecurityMode(mode), buildInvalidCause(`${field}.mode`, message)),
    ...listCauses(allowedMACs, `${field}.allowedMACs`, {
      isValid: isNicMac,
      message: "is not a MAC address that a NIC can have",
    }),
    ...listCauses(allowedAddresses, `${field}.allowedAddresses`, {
      isValid: (text) => (parseIp(text)?.length ?? 0) > 0,
      message: "is neither an address nor a prefix of addresses",
    }),
  ];
});

/** Checks for a mode weaker than `Addresses` and for exceptions (MACs, addresses, `allowServers`). The pod network permits neither. */
function weakensSecurity({ portSecurity = {} }: Iface): boolean {
  const { mode = "", allowedMACs = [], allowedAddresses = [], allowServers } = portSecurity;
  const isWeakerMode = mode !== "" && mode !== "Addresses";
  return isWeakerMode || allowedMACs.length + allowedAddresses.length > 0 || allowServers === true;
}

const podNetworkIsStrict = forEachIface((iface, path, spec) => {
  const network = findIfaceNetwork(spec, iface);
  return causeIf(
    network !== undefined && isDefaultNetwork(network) && weakensSecurity(iface),
    buildInvalidCause(
      `${path}.portSecurity`,
      "on the pod network a guest may send only from its own MAC and addresses",
    ),
  );
});

const mtuInBounds = forEachIface(({ mtu = MTU_MIN }, path) =>
  causeIf(
    !Number.isInteger(mtu) || mtu < MTU_MIN || mtu > MTU_MAX,
    buildInvalidCause(
      `${path}.mtu`,
      `must be between ${String(MTU_MIN)} and ${String(MTU_MAX)}, inclusive`,
    ),
  ),
);

function listQueueCauses(queues: number, field: string): readonly Cause[] {
  return causeIf(
    !Number.isInteger(queues) || queues < 1 || queues > QUEUES_MAX,
    buildInvalidCause(field, `must be between 1 and ${String(QUEUES_MAX)}, inclusive`),
  );
}

const queuesInBounds = forEachIface(({ queues, model = "" }, path) => {
  if (queues === undefined) return [];
  const field = `${path}.queues`;
  return [
    ...listQueueCauses(queues, field),
    ...causeIf(
      model !== "" && model !== "virtio",
      buildInvalidCause(field, `is for model virtio only, and the model is ${model}`),
    ),
  ];
});

const maxQueuesInBounds: Rule = ({ devices, base }) =>
  listQueueCauses(
    devices.maxNetworkInterfaceQueues ?? 1,
    `${base}.domain.devices.maxNetworkInterfaceQueues`,
  );

/** Interface fields that require a feature gate. */
const GATED_FIELDS: readonly (readonly [keyof Iface, NicGate])[] = [
  ["mtu", "InterfaceMTUOverride"],
  ["queues", "NetworkInterfaceQueueLimits"],
  ["bandwidth", "NetworkBandwidthLimiting"],
];

interface GatedSpecs {
  /** Stored specification; unset for a new object. Unchanged fields remain allowed when their feature gate is disabled. */
  readonly before?: VmiSpec | undefined;
  readonly after: VmiSpec;
  /** Path of the specification. */
  readonly base: string;
}

function buildGateCause(path: string, field: string, gate: NicGate): Cause {
  return {
    reason: "FieldValueForbidden",
    field: `${path}.${field}`,
    message: `${field} is disabled; to enable it, an administrator adds ${gate} to configuration.developerConfiguration.featureGates of the KubeVirt object`,
  };
}

function listGatedDeviceCauses(
  { before, after, base }: GatedSpecs,
  gates: readonly NicGate[],
): readonly Cause[] {
  const [field, gate] = ["maxNetworkInterfaceQueues", "NetworkInterfaceQueueLimits"] as const;
  const [old, current] = [before, after].map((spec) => spec?.domain.devices?.[field]);
  return causeIf(
    current !== undefined && current !== old && !gates.includes(gate),
    buildGateCause(`${base}.domain.devices`, field, gate),
  );
}

export function listGatedCauses(specs: GatedSpecs, gates: readonly NicGate[]): readonly Cause[] {
  return [
    ...listGatedDeviceCauses(specs, gates),
    ...listGatedIfaceCauses(specs, gates),
    ...listGatedClaimCauses(specs, gates),
  ];
}

function listGatedClaimCauses(
  { before, after, base }: GatedSpecs,
  gates: readonly NicGate[],
): readonly Cause[] {
  return listNewClaimFields(before, after, base).flatMap((path) => {
    const dot = path.lastIndexOf(".");
    const cause = buildGateCause(path.slice(0, dot), path.slice(dot + 1), CLAIMS_GATE);
    return causeIf(!gates.includes(CLAIMS_GATE), cause);
  });
}

function listGatedIfaceCauses(
  { before, after, base }: GatedSpecs,
  gates: readonly NicGate[],
): readonly Cause[] {
  const oldIfaces = before?.domain.devices?.interfaces ?? [];
  return (after.domain.devices?.interfaces ?? []).flatMap((iface, index) => {
    const old = findByName(oldIfaces, iface.name);
    return GATED_FIELDS.filter(
      ([field, gate]) =>
        !isAbsent(iface) &&
        iface[field] !== undefined &&
        !gates.includes(gate) &&
        JSON.stringify(iface[field]) !== JSON.stringify(old?.[field]),
    ).map(([field, gate]) => buildGateCause(ifacePath(base, index), field, gate));
  });
}

export const IFACE_TRAFFIC_RULES: readonly Rule[] = [
  natSubnetsFit,
  portsAreNumbers,
  rangesNeedMasquerade,
  rangesAreValid,
  rangesDoNotOverlap,
  securityIsKnown,
  podNetworkIsStrict,
  mtuInBounds,
  queuesInBounds,
  maxQueuesInBounds,
  bandwidthIsEnforceable,
];

/** Numbers of private DHCP options. Source: KubeVirt api/core/v1 schema.go, DHCPPrivateOptions. */
const [PRIVATE_FIRST, PRIVATE_LAST] = [224, 254];
/** Maximum length of an option's value, in bytes. Source: RFC 2132 section 2 */
const OPTION_BYTES_MAX = 255;
const NTP_SERVERS_MAX = Math.floor(OPTION_BYTES_MAX / 4);
const PRINTABLE_TEXT = /^[!-+\--~]{1,127}$/;

function invalidIf(isInvalid: boolean, field: string, message: string): readonly Cause[] {
  return causeIf(isInvalid, { reason: "FieldValueInvalid", field, message });
}

function isIpv4(text: string): boolean {
  const ip = parseSloppyIp(text);
  return ip?.version === 4 && !text.includes("/");
}

function countUtf8Bytes(text: string): number {
  return encodeURIComponent(text.toWellFormed()).replaceAll(/%../g, "x").length;
}

function listPrivateOptionCauses(
  { privateOptions = [] }: DhcpOptions,
  path: string,
): readonly Cause[] {
  const knownNumbers = new Set<number>();
  return privateOptions.flatMap(({ option, value }, index) => {
    const field = `${path}.privateOptions[${String(index)}]`;
    const bytes = countUtf8Bytes(value);
    const isKnown = knownNumbers.has(option);
    knownNumbers.add(option);
    return [
      ...invalidIf(
        isKnown,
        `${field}.option`,
        `Found Duplicates: you have provided duplicate DHCPPrivateOptions, ${String(option)}`,
      ),
      ...invalidIf(
        option < PRIVATE_FIRST || option > PRIVATE_LAST,
        `${field}.option`,
        `provided DHCPPrivateOptions are out of range, must be in range ${String(PRIVATE_FIRST)} to ${String(PRIVATE_LAST)}`,
      ),
      ...invalidIf(
        bytes === 0 || bytes > OPTION_BYTES_MAX,
        `${field}.value`,
        `must be 1 to ${String(OPTION_BYTES_MAX)} bytes`,
      ),
    ];
  });
}

function listTextCauses(options: DhcpOptions, path: string): readonly Cause[] {
  return (["bootFileName", "tftpServerName"] as const).flatMap((name) => {
    const text = options[name] ?? "";
    return invalidIf(
      text !== "" && !PRINTABLE_TEXT.test(text),
      `${path}.${name}`,
      "must be at most 127 printable ASCII characters without blank and comma",
    );
  });
}

const dhcpOptionsAreValid = forEachIface((iface, path) => {
  const options = iface.dhcpOptions ?? {};
  const field = `${path}.dhcpOptions`;
  return [
    ...listPrivateOptionCauses(options, field),
    ...invalidIf(
      (options.ntpServers ?? []).length > NTP_SERVERS_MAX,
      `${field}.ntpServers`,
      `must have at most ${String(NTP_SERVERS_MAX)} addresses, the maximum of a DHCP option`,
    ),
    ...(options.ntpServers ?? []).flatMap((server, index) =>
      invalidIf(
        !isIpv4(server),
        `${field}.ntpServers[${String(index)}]`,
        "NTP servers must be a list of valid IPv4 addresses.",
      ),
    ),
    ...listTextCauses(options, field),
  ];
});

export const DHCP_OPTION_RULES: readonly Rule[] = [dhcpOptionsAreValid];
