(function(){var d=document.documentElement,t=null;d.classList.add("js");
try{t=localStorage.getItem("nccl-insight-theme")}catch(e){}
if(t==="dark"||t==="light")d.setAttribute("data-theme",t)})();
