// Our icons: 16 × 16, one stroke. They repeat the text beside them, so screen readers skip them.
const PATHS = {
  home: "M2.5 7.5 8 3l5.5 4.5V13h-4V9.5h-3V13h-4z",
  key: "M8.6 7.4a3.1 3.1 0 1 1 0-.1M8.5 8.5 13.5 13.5M11.2 11.2l1.5-1.5",
  tenant: "M3 13.5v-10h6v10M9 6.5h4v7M1.5 13.5h13M5 6h2M5 8.5h2M5 11h2",
  project: "M2.5 4.5h4l1.2 1.5h5.8v7h-11z",
  plan: "M8 2.5 14 5.5 8 8.5 2 5.5zM2.5 8.5 8 11.2l5.5-2.7M2.5 11 8 13.7l5.5-2.7",
  usage: "M2.5 13.5v-5M6.2 13.5v-10M9.8 13.5V7M13.5 13.5v-8",
  fleet: "M2.5 3h11v4h-11zM2.5 9h11v4h-11zM5 5h.01M5 11h.01",
  leak: "M8 2.2 14.2 13H1.8zM8 6.5v3M8 11.2v.1",
  audit: "M4 2.5h8v11H4zM6 5.5h4M6 8h4M6 10.5h2",
  portal: "M2.5 3h11v10h-11zM2.5 6h11M5 9h3",
  code: "M5.5 5 2.5 8l3 3M10.5 5l3 3-3 3M9 3.5l-2 9",
  members:
    "M6 7.5a2.2 2.2 0 1 0 0-4.4 2.2 2.2 0 0 0 0 4.4M2 13c0-2.4 1.7-3.8 4-3.8s4 1.4 4 3.8M10.5 7.3a2 2 0 1 0-.6-3.9M11.5 9.4c1.6.3 2.5 1.6 2.5 3.6",
  settings:
    "M2.5 4.5h5M11 4.5h2.5M2.5 11.5h2.5M8.5 11.5h5M9.2 6.2a1.7 1.7 0 1 0 0-3.4 1.7 1.7 0 0 0 0 3.4M6.8 13.2a1.7 1.7 0 1 0 0-3.4 1.7 1.7 0 0 0 0 3.4",
  server: "M3 2.5h10v11H3zM3 6h10M5.5 4.2h.01M6 9h4M6 11h4",
  search: "M7 11.5a4.5 4.5 0 1 0 0-9 4.5 4.5 0 0 0 0 9M10.3 10.3l3.2 3.2",
  menu: "M2.5 4.5h11M2.5 8h11M2.5 11.5h11",
  close: "M4 4l8 8M12 4l-8 8",
  check: "M3 8.5 6.5 12 13 4.5",
  plus: "M8 3v10M3 8h10",
  copy: "M5.5 5.5h8v8h-8zM3.5 10.5h-1v-8h8v1",
  down: "M4 6l4 4 4-4",
  left: "M10 4 6 8l4 4",
  right: "M6 4l4 4-4 4",
  more: "M3.5 8h.01M8 8h.01M12.5 8h.01",
  alert: "M8 4v5M8 11.6v.1",
  exit: "M6.5 2.5h-4v11h4M10 5l3 3-3 3M13 8H6",
  bell: "M8 2.5a3.6 3.6 0 0 1 3.6 3.6V9l1.2 2H3.2l1.2-2V6.1A3.6 3.6 0 0 1 8 2.5M6.7 13.5h2.6",
  download: "M8 2.5v7.5M4.8 7 8 10.2 11.2 7M2.5 13.5h11",
  user: "M8 8a2.6 2.6 0 1 0 0-5.2A2.6 2.6 0 0 0 8 8M3 13.5c.3-2.7 2.2-4.2 5-4.2s4.700 1.500 5 4.200",
} as const;

export type IconName = keyof typeof PATHS;

export function Icon({ name, size = 16 }: { name: IconName; size?: number }) {
  return (
    <svg class="icon" width={size} height={size} viewBox="0 0 16 16" aria-hidden="true" focusable="false">
      <path d={PATHS[name]} />
    </svg>
  );
}

export function Logo() {
  return (
    <svg class="logo" viewBox="0 0 32 32" aria-hidden="true" focusable="false">
      <rect width="32" height="32" rx="8" />
      <path d="M12 17a5 5 0 1 0 0-10 5 5 0 0 0 0 10M15.600 15.600 25 25M22 22l2.600-2.600M19 19l2-2" />
    </svg>
  );
}
