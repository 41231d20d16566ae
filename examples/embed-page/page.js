const portal = document.querySelector("keyrack-portal");

portal.getToken = async () => {
  const response = await fetch("/embed-token", { method: "POST" });
  if (!response.ok) throw new Error("no token");
  return response.json();
};
