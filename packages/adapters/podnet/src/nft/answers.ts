// SPDX-License-Identifier: Apache-2.0
// Where the pod gives the guest its addresses: nobody else answers it, nobody else asks the pod, and what it sends by way
// of the bridge goes to the network's own gateway. Why each: docs/design/guest-addresses.md.
import type { BridgeWiring } from "@patchbay/core";
import { DHCP_REQUESTS } from "./dhcp-requests.ts";
import type { Table, TableName } from "./table.ts";

/** What the rules are made from. */
export interface AnswersWiring extends Pick<
  BridgeWiring,
  "bridgeName" | "podInterfaceName" | "tapName"
> {
  readonly answers: NonNullable<BridgeWiring["answers"]>;
  /** The bridge's. */
  readonly bridgeMac: string;
}

/** The table of the bridge of that name. */
export function answersNameOf(bridgeName: string): TableName {
  return { family: "bridge", name: `patchbay-${bridgeName}` };
}

/** What a guest asks, and what it is answered, by family. */
const IPV4 = {
  questions: [DHCP_REQUESTS.ipv4],
  answers: ["udp sport 67"],
} as const;
const IPV6 = {
  questions: [DHCP_REQUESTS.ipv6, "icmpv6 type nd-router-solicit"],
  answers: ["udp sport 547", "icmpv6 type nd-router-advert"],
} as const;
/** What finding the bridge by IPv6 needs. */
const NEIGHBOURS = "icmpv6 type { nd-neighbor-solicit, nd-neighbor-advert }";
const LINK_LOCAL = "fe80::/10";

/** The guest's router is the bridge: what is for others than the bridge itself goes on to the network's gateway. */
function gatewayRules(
  { tapName, bridgeMac, answers }: AnswersWiring,
  own: readonly string[],
): readonly string[] {
  if (answers.gatewayMac === undefined) return [];
  const toBridge = `iifname "${tapName}" ether daddr ${bridgeMac}`;
  return [
    ...[LINK_LOCAL, ...own].map((address) => `${toBridge} ip6 daddr ${address} accept`),
    `${toBridge} ether type ip6 ether daddr set ${answers.gatewayMac}`,
  ];
}

/** DHCP requests are counted for the doctor. */
function heardRule(match: string): string {
  const isDhcp = Object.values<string>(DHCP_REQUESTS).includes(match);
  return `${match}${isDhcp ? " counter" : ""} accept`;
}

/** The rules around a bridge from which the pod answers. */
export function answersTable(wiring: AnswersWiring): Table {
  const { bridgeName, podInterfaceName, tapName, answers } = wiring;
  const addresses = answers.addresses.map((address) => address.split("/")[0] ?? "");
  const ipv6 = addresses.filter((address) => address.includes(":"));
  const words = [
    ...(ipv6.length < addresses.length ? [IPV4] : []),
    ...(ipv6.length > 0 ? [IPV6] : []),
  ];
  const questions = words.flatMap((family) => family.questions);
  const answered = words.flatMap((family) => family.answers);
  const heard = ipv6.length > 0 ? [...questions, NEIGHBOURS] : questions;
  const [toNetwork, fromNetwork, fromGuest] = [
    `oifname "${podInterfaceName}"`,
    `iifname "${podInterfaceName}"`,
    `iifname "${tapName}"`,
  ];
  const toGateway = gatewayRules(wiring, ipv6);
  const hook = (at: string) => ({ type: "filter", at, policy: "accept" }) as const;
  return {
    ...answersNameOf(bridgeName),
    chains: [
      ...(toGateway.length === 0
        ? []
        : [{ name: "inward", hook: hook("prerouting priority dstnat"), rules: toGateway }]),
      {
        // One chain for both ways: each that a frame passes costs it a tenth of its time.
        name: "through",
        hook: hook("forward priority filter"),
        rules: [
          ...answered.map((match) => `${fromNetwork} ${match} drop`),
          ...questions.map((match) => `${toNetwork} ${match} drop`),
        ],
      },
      {
        name: "heard",
        hook: hook("input priority filter"),
        rules: [
          ...heard.map((match) => `${fromGuest} ${heardRule(match)}`),
          `${fromGuest} drop`,
          `${fromNetwork} drop`,
        ],
      },
      {
        name: "said",
        hook: hook("output priority filter"),
        rules: [`${toNetwork} drop`],
      },
    ],
  };
}
