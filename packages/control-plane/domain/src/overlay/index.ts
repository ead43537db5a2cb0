// SPDX-License-Identifier: Apache-2.0
// Merges a domain that a hook returned into the original domain.
import { isJsonObject } from "@patchbay/api/json";
import Builder from "fast-xml-builder";
import { XMLParser } from "fast-xml-parser";
import { checkDocument, describeParseError } from "../xml/check-document.ts";

const MAX_DEPTH = 32;

/** XML element without comments and processing instructions. */
export interface XmlElement {
  readonly name: string;
  readonly attributes: ReadonlyMap<string, string>;
  readonly children: readonly XmlElement[];
  /** Text directly inside the element, joined and trimmed. */
  readonly text: string;
}

type ParsedXml =
  | { readonly ok: true; readonly root: XmlElement }
  | { readonly ok: false; readonly reason: string };

const ATTRIBUTES = ":@";
const TEXT = "#text";
const SETTINGS = {
  preserveOrder: true,
  ignoreAttributes: false,
  attributeNamePrefix: "",
} as const;

const parser = new XMLParser({
  ...SETTINGS,
  parseTagValue: false,
  parseAttributeValue: false,
  processEntities: true,
  // Decodes numeric character references, because Go writes quotes and line breaks as references.
  // oxlint-disable-next-line typescript/no-deprecated -- its successor requires a custom decoder
  htmlEntities: true,
  ignoreDeclaration: true,
  ignorePiTags: true,
  trimValues: true,
});

const builder = new Builder({ ...SETTINGS, format: true, suppressEmptyNode: true });

function readAttributes(value: unknown): ReadonlyMap<string, string> {
  if (!isJsonObject(value)) return new Map();
  return new Map(Object.entries(value).map(([name, text]) => [name, String(text)]));
}

/** Lists the elements among the parser's nodes. A node is an object whose keys are the element's name and `:@`. */
function listElements(nodes: readonly unknown[], depth: number): readonly XmlElement[] {
  if (depth > MAX_DEPTH) throw new Error(`it has more than ${String(MAX_DEPTH)} levels`);
  return nodes.filter(isJsonObject).flatMap((node): readonly XmlElement[] => {
    const name = Object.keys(node).find((key) => key !== ATTRIBUTES && key !== TEXT);
    const content = name === undefined ? undefined : node[name];
    if (name === undefined || !Array.isArray(content)) return [];
    const texts = content.filter(isJsonObject).flatMap(({ [TEXT]: text }) => text ?? []);
    return [
      {
        name,
        attributes: readAttributes(node[ATTRIBUTES]),
        children: listElements(content, depth + 1),
        text: texts.map(String).join("").trim(),
      },
    ];
  });
}

function parseRoot(xml: string): XmlElement {
  checkDocument(xml);
  const nodes: unknown = parser.parse(xml);
  const [root, second] = listElements(Array.isArray(nodes) ? nodes : [], 0);
  if (root === undefined || second !== undefined)
    throw new Error("it does not have exactly one root element");
  return root;
}

/** Parses XML; rejects documents that are too long, too deep or malformed, or that have a DOCTYPE. */
export function readXml(xml: string): ParsedXml {
  try {
    return { ok: true, root: parseRoot(xml) };
  } catch (error) {
    return { ok: false, reason: describeParseError(error) };
  }
}

function toNode({ name, attributes, children, text }: XmlElement): object {
  const texts = text === "" ? [] : [{ [TEXT]: text }];
  const content = [...texts, ...children.map(toNode)];
  return {
    [name]: content,
    ...(attributes.size === 0 ? {} : { [ATTRIBUTES]: Object.fromEntries(attributes) }),
  };
}

export function writeXml(root: XmlElement): string {
  return `${builder.build([toNode(root)]).trim()}\n`;
}

export interface DomainChange {
  /** `missing` means that the returned domain lacks the element and the merge retains it. */
  readonly kind: "added" | "changed" | "missing";
  /** Names of the elements from the root. The name of an attribute begins with `@`. */
  readonly path: readonly string[];
  /** The path as text, with the identity of each element. */
  readonly where: string;
  /** Empty for an element, as is `oldValue`. */
  readonly newValue: string;
  readonly oldValue: string;
  readonly element?: XmlElement;
  /** Enclosing elements, innermost first. */
  readonly ancestors: readonly XmlElement[];
}

interface MergedElement {
  readonly root: XmlElement;
  readonly changes: readonly DomainChange[];
}

function findChild({ children }: XmlElement, name: string): XmlElement | undefined {
  return children.find((child) => child.name === name);
}

function findAttribute(element: XmlElement | undefined, name: string): string | undefined {
  return element?.attributes.get(name);
}

/** Returns the alias, which lacks the prefix `ua-` in the XML that hooks see. Source: libvirt formatdomain "alias". */
function aliasOfElement(element: XmlElement): string | undefined {
  return findAttribute(findChild(element, "alias"), "name");
}

/** Returns what identifies the element among its siblings of the same name; undefined if only the position does. */
function identifyElement(element: XmlElement): string | undefined {
  const { attributes } = element;
  const alias = aliasOfElement(element);
  if (alias !== undefined) return alias;
  if (element.name === "controller") {
    return [attributes.get("type"), attributes.get("index")].join(" ");
  }
  const target = findChild(element, "target");
  return (
    findAttribute(target, "dev") ??
    findAttribute(findChild(element, "mac"), "address")?.toLowerCase() ??
    findAttribute(target, "name") ??
    attributes.get("name") ??
    attributes.get("alias")
  );
}

interface Position {
  readonly path: readonly string[];
  readonly where: string;
  readonly ancestors: readonly XmlElement[];
}

function toChildPosition(position: Position, element: XmlElement): Position {
  const identity = identifyElement(element);
  const { name } = element;
  return {
    path: [...position.path, name],
    where: `${position.where}/${name}${identity === undefined ? "" : `[${identity}]`}`,
    ancestors: [element, ...position.ancestors],
  };
}

function valueChange(
  position: Position,
  name: string | undefined,
  { from, to }: { readonly from: string | undefined; readonly to: string },
): readonly DomainChange[] {
  if (from === to) return [];
  const place =
    name === undefined
      ? position
      : { ...position, path: [...position.path, `@${name}`], where: `${position.where}/@${name}` };
  const kind = from === undefined ? "added" : "changed";
  return [{ kind, ...place, newValue: to, oldValue: from ?? "" }];
}

function mergeAttributes(
  original: XmlElement,
  returned: XmlElement,
  position: Position,
): { readonly attributes: XmlElement["attributes"]; readonly changes: readonly DomainChange[] } {
  const attributes = new Map([...original.attributes, ...returned.attributes]);
  const changes = [...returned.attributes].flatMap(([name, to]) =>
    valueChange(position, name, { from: original.attributes.get(name), to }),
  );
  return { attributes, changes };
}

function extractMatch(original: XmlElement, remaining: XmlElement[]): XmlElement | undefined {
  const identity = identifyElement(original);
  const index = remaining.findIndex(
    (one) =>
      one.name === original.name && (identity === undefined || identifyElement(one) === identity),
  );
  return index < 0 ? undefined : remaining.splice(index, 1)[0];
}

function mergeChildren(
  original: XmlElement,
  returned: XmlElement,
  position: Position,
): { readonly children: readonly XmlElement[]; readonly changes: readonly DomainChange[] } {
  const remaining = [...returned.children];
  const changes: DomainChange[] = [];
  const retained = original.children.map((child) => {
    const match = extractMatch(child, remaining);
    if (match === undefined) {
      changes.push({
        kind: "missing",
        ...toChildPosition(position, child),
        newValue: "",
        oldValue: "",
        element: child,
      });
      return child;
    }
    const merged = mergeElement(child, match, toChildPosition(position, child));
    changes.push(...merged.changes);
    return merged.root;
  });
  for (const element of remaining) {
    const { path, where } = toChildPosition(position, element);
    changes.push({
      kind: "added",
      path,
      where,
      ancestors: position.ancestors,
      newValue: "",
      oldValue: "",
      element,
    });
  }
  return { children: [...retained, ...remaining], changes };
}

function mergeElement(
  original: XmlElement,
  returned: XmlElement,
  position: Position,
): MergedElement {
  const { attributes, changes: attributeChanges } = mergeAttributes(original, returned, position);
  const { children, changes: childChanges } = mergeChildren(original, returned, position);
  const text = returned.text === "" ? original.text : returned.text;
  const changes = [
    ...attributeChanges,
    ...valueChange(position, undefined, { from: original.text, to: text }),
    ...childChanges,
  ];
  return { root: { name: original.name, attributes, children, text }, changes };
}

/** Merges `returned` into `original` and lists the differences. Both root elements must have the same name. */
export function mergeDomain(original: XmlElement, returned: XmlElement): MergedElement {
  return mergeElement(
    original,
    returned,
    toChildPosition({ path: [], where: "", ancestors: [] }, original),
  );
}
