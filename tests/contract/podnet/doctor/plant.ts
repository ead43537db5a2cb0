// SPDX-License-Identifier: Apache-2.0
// How a fault is planted in the path of a NIC.
import type { HopName } from "@patchbay/core/doctor";
import { run } from "@patchbay/support";
import type { DoctorScene, FactsChange } from "./doctor-scene.ts";

export interface PlantedFault {
  readonly name: string;
  readonly hop: HopName;
  readonly reason: string;
  /** Direction that the report must name. */
  readonly direction?: "toward the guest" | "from the guest";
  /** Set if the report must name the reason as uncertain, and no hop as dead. */
  readonly isUncertain?: true;
  readonly plant: (scene: DoctorScene) => void | Promise<void>;
  /** The guest's binding; `bridge` by default. */
  readonly binding?: "masquerade";
  /** Facts that differ from the faultless case. */
  readonly facts?: FactsChange;
}

type Plant = PlantedFault["plant"];
type Place = "pod" | "host" | "guest" | "lan";

/** `ip` in one of the namespaces. */
export function ip(place: Place, ...words: readonly string[]): Plant {
  return (scene) => void run("ip", "-n", scene[place], ...words);
}

export function link(place: Place, name: string, ...words: readonly string[]): Plant {
  return ip(place, "link", "set", name, ...words);
}

export function bridge(place: Place, ...words: readonly string[]): Plant {
  return (scene) => void run("bridge", "-n", scene[place], ...words);
}

type Text = string | ((scene: DoctorScene) => string);

/** A rule in its own table; `hook`: its place in nft's syntax. */
export function nft(place: Place, family: string, [hook, rule]: readonly [Text, Text]): Plant {
  const inScene = (text: Text, scene: DoctorScene): string =>
    typeof text === "string" ? text : text(scene);
  return (scene) => {
    const [at, what] = [inScene(hook, scene), inScene(rule, scene)];
    const text = `add table ${family} planted; add chain ${family} planted c { type filter hook ${at} ; }; add rule ${family} planted c ${what}`;
    run("ip", "netns", "exec", scene[place], "nft", text);
  };
}

export function peerLink(...words: readonly string[]): Plant {
  return (scene) => void run("ip", "-n", scene.host, "link", "set", scene.peer, ...words);
}

export function inOrder(...plants: readonly Plant[]): Plant {
  return async (scene) => {
    for (const plant of plants) await plant(scene);
  };
}

export const FORWARD = "forward priority 0";
/** Half of the frames at random, as `netem loss 50%` drops them. */
export const HALF = "numgen random mod 2 0 drop";
export const EVERY_FIFTH = "numgen inc mod 5 0 drop";
const NO_HOST = "02:00:00:00:5e:88";

/** After the node became the network's gateway. */
export function routed(...plants: readonly Plant[]): Plant {
  return inOrder(
    (scene) => {
      scene.routeByNode();
    },
    ...plants,
  );
}

function gatewayMac({ lan }: DoctorScene): string {
  const words = run("ip", "-j", "-n", lan, "link", "show", "dev", "lan0");
  const [link] = JSON.parse(words) as readonly { readonly address: string }[];
  return link?.address ?? "";
}

/** A static forwarding entry for the gateway's MAC. */
export function gatewayEntry(place: Place, port: Text): Plant {
  return (scene) => {
    const device = typeof port === "string" ? port : port(scene);
    const words = [gatewayMac(scene), "dev", device, "master", "static", "sticky"];
    run("bridge", "-n", scene[place], "fdb", "replace", ...words);
  };
}

export function neighbor(place: Place, address: string, device: string): Plant {
  return ip(
    place,
    "neigh",
    "replace",
    address,
    "lladdr",
    NO_HOST,
    "dev",
    device,
    "nud",
    "permanent",
  );
}

export function ebtables(...words: readonly string[]): Plant {
  return (scene) => void run("ip", "netns", "exec", scene.host, "ebtables", ...words);
}
